"""A process that begins to unpack an archive of the small PACS, and does not end."""

import sys
import time
from pathlib import Path

from trees import small_pacs

from riskmatch.data.images.benchmark import Origin
from riskmatch.data.images.prepared import prepared


def half(files, tree, on_progress):
    (tree / "half.jpg").write_bytes(b"")
    print("unpacking", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    archive = Path(sys.argv[1])
    prepared(small_pacs(), Origin((), half), {archive.name: archive}, archive.parent / "pacs")
