from .advice import Advice as Advice
from .advice import read_advice as read_advice
from .advice import write_advice as write_advice
from .advising import advise as advise
from .report import Advised as Advised
