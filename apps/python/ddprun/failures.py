"""What the package's exceptions have in common, and its handles."""

import copyreg
from typing import Any, NoReturn, Tuple


class Failure(RuntimeError):
    """An exception that travels with all its members: pickled, copied, out of a pool. Its constructor is not called again, so
    that one of a subclass may have other arguments."""

    def __reduce__(self) -> Tuple[Any, ...]:
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class Handle:
    """Something that this process alone has, and that ends with its one object."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"{type(self).__name__}: cannot be copied or given to another process")
