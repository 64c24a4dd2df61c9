"""What compiled threads need of the machine: numbers that others see at once, a short rest, and early fetching.

The threads that share a tree meet many thousand times a second. Waking a thread that sleeps takes longer than most
of their tasks, so they watch a number instead; whoever waits long gives up and lets the interpreter sleep.
"""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

LINE = 8  # words of a cache line: numbers that different threads write lie that far apart
_PATIENCE = 1 << 14  # looks at a number before a waiting thread gives up
_X86 = platform.machine().lower() in ("x86_64", "amd64")


def _address(context: Any, builder: Any, array: Any, values: Any) -> Any:
    return builder.gep(context.make_array(array)(context, builder, values[0]).data, [values[1]])


@intrinsic
def peek(typingctx: Any, array: Any, index: Any) -> Any:
    """Read a whole number that another thread may write; what it wrote before is seen too."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.load_atomic(_address(context, builder, signature.args[0], values), "acquire", 8)

    return types.int64(array, types.intp), codegen


@intrinsic
def post(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
    """Write a whole number that another thread waits for, after all that was written before."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        builder.store_atomic(values[2], _address(context, builder, signature.args[0], values), "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), codegen


@intrinsic
def rest(typingctx: Any) -> Any:
    """Tell the processor that this thread waits."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if _X86:
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def prefetch(typingctx: Any, array: Any, index: Any) -> Any:
    """Have an entry fetched that will be read soon."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        byte, whole = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        place = builder.bitcast(_address(context, builder, signature.args[0], values), byte)
        builder.call(fetch, [place, whole(0), whole(3), whole(1)])  # to read, keep near, data
        return context.get_dummy_value()

    return types.void(array, types.uint64), codegen


@njit(cache=True, nogil=True)
def met(numbers: np.ndarray, place: int, wanted: int) -> bool:
    """Wait until a number is ``wanted``; False after a while."""
    for _ in range(_PATIENCE):
        if peek(numbers, place) == wanted:
            return True
        rest()
    return False
