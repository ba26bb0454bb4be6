from .comparison import tables_of as tables_of
from .figures import draw_figure as draw_figure
from .page import summarise as summarise
from .render import write_report as write_report
from .selected import find_run as find_run
