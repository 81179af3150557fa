"""Makes Beam build small pipelines in half the time, for tests run hundreds of them.

Beam reads the signatures of all methods of a step some sixty times and makes a parser of flags for
each look at an option. Neither result changes, so here they are kept.
"""

import copy
import functools
import types

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import core

_look_at = core.get_function_args_defaults
_parse = PipelineOptions.__init__
_parsed: dict = {}


@functools.cache
def _of_method(function: types.FunctionType) -> tuple[list[str], list]:
    return _look_at(types.MethodType(function, object()))


def _arguments(function) -> tuple[list[str], list]:
    if not isinstance(function, types.MethodType):
        return _look_at(function)
    names, defaults = _of_method(function.__func__)
    return [*names], [*defaults]


def _options(self, flags=None, **values):
    key = None if flags is None or isinstance(flags, str) else (type(self), tuple(flags))
    if key not in _parsed:
        _parse(self, flags, **values)
        if key is not None:
            _parsed[key] = copy.deepcopy(self._visible_options)
        return
    self._flags = flags
    self._visible_options = copy.deepcopy(_parsed[key])
    self._all_options = values
    for name in self._visible_option_list():
        values.setdefault(name, getattr(self._visible_options, name))


def install() -> None:
    """From now on, in this process."""
    core.get_function_args_defaults = _arguments
    PipelineOptions.__init__ = _options
