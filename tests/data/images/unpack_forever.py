"""A process that starts to unpack an archive of the small PACS and does not end."""

import sys
import time
from pathlib import Path

from trees import small_pacs

from riskmatch.data import no_progress
from riskmatch.data.images.archives import CONVERTERS
from riskmatch.data.images.benchmark import Origin
from riskmatch.data.images.get import _install


def half(files, unpacker):
    (unpacker.folder / "half.jpg").write_bytes(b"")
    print("unpacking", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    archive, CONVERTERS["half"] = Path(sys.argv[1]), half
    files = {archive.name: archive}
    _install(small_pacs(), Origin((), "half"), files, archive.parent / "pacs", no_progress)
