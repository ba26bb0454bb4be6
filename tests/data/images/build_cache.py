"""Build a cache of images: `build_cache.py GO ROOT FOLDER PATH…`.

Images are decoded once the file GO exists.
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
    file = cache.cached_file(
        Path(root), paths, 32, Path(folder), lambda name, done, _: print(name, done, flush=True)
    )
    print("sum", int(cache.map_pixels(file, len(paths)).sum()))


if __name__ == "__main__":
    main(*sys.argv[1:])
