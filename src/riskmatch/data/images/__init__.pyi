from .benchmark import BENCHMARKS as BENCHMARKS
from .benchmark import Benchmark as Benchmark
from .cache import image_domains as image_domains
from .get import get_benchmark as get_benchmark
from .index import ImageIndex as ImageIndex
from .index import index_folder as index_folder
from .manifest import index_manifest as index_manifest
