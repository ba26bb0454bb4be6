"""Build a cache of images: `build_cache.py GO ROOT FOLDER PATH…`.

Images are decoded once the file GO is there.
"""

import sys
import time
from pathlib import Path

from riskmatch.data.images import cache


def main(go, root, folder, *paths):
    decode = cache.decode

    def wait_and_decode(path, side):
        print("begins", flush=True)
        while not Path(go).exists():
            time.sleep(0.01)
        return decode(path, side)

    cache.decode = wait_and_decode
    pixels = cache.cached_pixels(
        Path(root),
        paths,
        32,
        folder=Path(folder),
        on_progress=lambda name, done, total: print(name, done, flush=True),
    )
    print("sum", int(pixels.sum()))


if __name__ == "__main__":
    main(*sys.argv[1:])
