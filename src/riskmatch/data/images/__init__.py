"""Image data sets: index files, decode them once, feed them from memory."""

from typing import TYPE_CHECKING, Any

from riskmatch.data.images.benchmark import Benchmark
from riskmatch.data.images.benchmarks import BENCHMARKS
from riskmatch.data.images.get import get_benchmark
from riskmatch.data.images.index import ImageIndex, index_folder
from riskmatch.data.images.manifest import index_manifest

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


def __getattr__(name: str) -> Any:
    """Import ``image_domains`` on first use, so that benchmarks can be listed without torch."""
    if name != "image_domains":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from riskmatch.data.images.cache import image_domains

    return image_domains
