"""Image data sets: index files, decode them once, feed them from memory."""

from typing import TYPE_CHECKING

from riskmatch.data.images.benchmark import Benchmark
from riskmatch.data.images.benchmarks import BENCHMARKS
from riskmatch.data.images.get import get_benchmark
from riskmatch.data.images.index import ImageIndex, index_folder
from riskmatch.data.images.manifest import index_manifest
from riskmatch.lazy import lazy_names

if TYPE_CHECKING:
    from riskmatch.data.images.cache import image_domains

__all__ = [
    "BENCHMARKS",
    "Benchmark",
    "ImageIndex",
    "get_benchmark",
    "image_domains",
    "index_folder",
    "index_manifest",
]

__getattr__, __dir__ = lazy_names(__name__, {"image_domains": "cache"})
