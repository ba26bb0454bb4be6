"""How the process keeps its memory between steps."""

from __future__ import annotations

import ctypes

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # of glibc's mallopt
_KEEP = 1 << 30


def keep_freed_memory() -> bool:
    """Let the C library keep freed memory for the next step instead of returning it.

    A training step frees its activations, and by default glibc hands such large pieces back to the
    system, which clears them page by page when the next step asks again; on a large batch that
    takes about as long as the arithmetic between. This is a setting of the whole process, for
    programs whose work is training; resident memory then stays at its peak.

    Returns:
        Whether the C library knows the setting; others are left as they are.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _KEEP) and mallopt(_TRIM_THRESHOLD, _KEEP))
