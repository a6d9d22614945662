# SPDX-License-Identifier: Apache-2.0
"""The kinds of reports that the simulator's checks make, as data; aclsim/aclsim.h lists the same."""

from __future__ import annotations

from typing import NamedTuple


class Group(NamedTuple):
    """Kinds of one check that one advice serves."""

    check: str
    causes: str
    action: str
    rows: tuple[tuple[str, str], ...]
    """Kind and meaning of each."""


CHECKS = {
    "mem": "device memory, and memory of aclrtMallocHost, that is touched or freed where it must not be",
    "init": "device memory that is read before anything was written to it",
    "race": "work that a device may do in either order, or at once, although the order matters",
    "sync": "what the host does before it has waited for the work that it depends on",
    "api": "calls in the wrong order, with the wrong objects, or with what a kernel cannot do",
    "leak": "what is still there when ACL is finalised or a device reset",
}
"""What each looks for."""

_END = "keep memory until the host has waited for the last work that uses it, and free it once"
_WAIT = "synchronise with the stream (or with an event recorded on it, or let the other stream wait for one) in between"
_HANDLE = "keep each handle in one place, with what it is for, and end it there, once, behind its last use"

GROUPS = (
    Group(
        check="mem",
        causes=(
            "a tensor, a copy or a fill that is larger than its memory; a slot or position outside the caches or the "
            "table; a wrong base address, offset or stride"
        ),
        action="compare the sizes in the report with what was allocated; `aclnn-kvcache check` looks at the arguments",
        rows=(
            ("out_of_bounds_read", "bytes outside of a tensor, or of what was allocated, were to be read"),
            ("out_of_bounds_write", "bytes outside of a tensor, or of what was allocated, were to be written"),
            ("guard_overwritten", "bytes beside an allocation were written by something that no check saw"),
        ),
    ),
    Group(
        check="mem",
        causes="memory that is freed while something still needs it, or by two owners",
        action=_END,
        rows=(
            ("use_after_free", "memory was used that had been freed before the work was queued"),
            ("freed_while_queued", "memory was freed between the call that queued work on it and its turn"),
            ("double_free", "memory was freed that had been freed"),
        ),
    ),
    Group(
        check="mem",
        causes="an address into the middle of an allocation, of the host's own memory, or one that was never set",
        action="pass to aclrtFree what aclrtMalloc gave, and to aclrtFreeHost what aclrtMallocHost gave",
        rows=(
            ("invalid_free", "what was to be freed is no device memory"),
            ("inner_free", "what was to be freed is not the start of an allocation"),
        ),
    ),
    Group(
        check="mem",
        causes="a device address that is used like a pointer: memcpy, printing, an array made over it",
        action="copy to the host with aclrtMemcpy (in Python: .numpy()) and look at the copy",
        rows=(("host_touch", "code of the host touched device memory, which ends the process"),),
    ),
    Group(
        check="mem",
        causes="rows that are moved by less than their length inside one buffer",
        action="copy by way of another buffer, or in parts that do not overlap",
        rows=(("overlapping_copy", "source and destination of a copy inside the device share bytes"),),
    ),
    Group(
        check="mem",
        causes="int64 slots or caches beyond 32 bits in a call of few tokens, for which the device computes in 32 bits",
        action="pass -1 for tokens to skip, and split caches that are this large",
        rows=(
            ("wrapped_slot", "a slot is beyond 32 bits, and the row of its lower half is overwritten"),
            ("wrapped_offset", "an element is beyond 32 bits, and another one is overwritten"),
            ("wrapped_limit", "the caches have more slots than 32 bits count, and most are skipped"),
        ),
    ),
    Group(
        check="init",
        causes="an upload that is missing or too short, or a result whose call was never made",
        action="queue what writes the memory before what reads it; fresh memory is not zero",
        rows=(("uninitialised_read", "bytes were read that nobody ever wrote"),),
    ),
    Group(
        check="race",
        causes="two streams that share caches, inputs or a workspace, with nothing that orders them",
        action="record an event behind the one and let the other stream wait for it; a workspace for each stream",
        rows=(
            ("unordered_writes", "two streams write the same bytes, and nothing says which is last"),
            ("unordered_read_and_write", "a stream reads what another writes, and nothing says which is first"),
        ),
    ),
    Group(
        check="race",
        causes="a slot mapping that has a slot twice, such as padding that shares the slot of a token",
        action="give each token a slot of its own, and padding a slot to skip where the operator skips any",
        rows=(("duplicate_slot", "tokens of one call share a slot, and which one it keeps is undefined"),),
    ),
    Group(
        check="race",
        causes="a view with a stride of 0 or one that is too short, or one buffer passed for two tensors",
        action="give each tensor memory of its own, and each row of a cache its own bytes",
        rows=(
            ("overlapping_rows", "rows of one tensor lie on each other, and which one stays is undefined"),
            ("overlapping_tensors", "tensors of one call share bytes that the kernel writes"),
        ),
    ),
    Group(
        check="api",
        causes="a workspace that is cut out of a bigger buffer at the wrong place",
        action="allocate the workspace by itself, with the size that phase 1 gave",
        rows=(("workspace_overlaps_tensor", "the kernel's scratch memory lies on a tensor of the call"),),
    ),
    Group(
        check="sync",
        causes="an asynchronous call that is taken for done when it returns",
        action=_WAIT,
        rows=(
            ("read_before_synchronise", "the host reads what queued work writes"),
            ("write_before_synchronise", "the host writes what queued work uses"),
            ("freed_in_flight", "memory is freed that queued work may be using"),
            ("destroyed_in_flight", "a stream, event or executor is ended that queued work may be using"),
            ("finalized_in_flight", "ACL is finalised with work that nobody waited for"),
            ("exit_in_flight", "the process ends with work that nobody waited for"),
            ("time_before_synchronise", "an event is asked for its time before it was waited for"),
        ),
    ),
    Group(
        check="sync",
        causes="record and wait in the wrong order, a record that is left out, or another event",
        action="record the event first, behind the work to wait for, and queue or make the wait after that",
        rows=(("wait_without_record", "a wait for an event that was never recorded: for nothing, or for ever"),),
    ),
    Group(
        check="api",
        causes="streams that are ended without a synchronise, or one whose status nobody looked at",
        action="synchronise with the stream before it ends, and look at the status; explain the code in the report",
        rows=(("unheard_fault", "queued work failed, and no call has told the program"),),
    ),
    Group(
        check="api",
        causes="a status that was not looked at",
        action="look at the status of the call that the report names, and go no further when it is not 0",
        rows=(("ignored_status", "what a failed call left in its out-parameter was used as if it had been given"),),
    ),
    Group(
        check="api",
        causes="an end that came too early or twice, a handle that was kept too long, or a mix-up of arguments",
        action=_HANDLE,
        rows=(
            ("unknown_handle", "a handle that no call ever gave"),
            ("handle_of_another_kind", "a handle of another kind of object"),
            ("destroyed_handle", "a handle of something that was ended"),
            ("tensor_destroyed_between_phases", "a tensor was ended between phase 1 and phase 2, which reads it"),
        ),
    ),
    Group(
        check="api",
        causes="one phase 1 for several launches, or an executor that is destroyed although phase 2 has consumed it",
        action="call phase 1 before each phase 2, or make the executor repeatable, and destroy only those",
        rows=(
            ("consumed_executor", "an executor was used again after its phase 2"),
            ("executor_of_another_operator", "phase 2 of one operator got the executor of another"),
        ),
    ),
    Group(
        check="api",
        causes="a workspace of another call or size, or an address that is none of the device's",
        action="allocate what phase 1 of this call asked for, with aclrtMalloc on this device",
        rows=(
            ("workspace_too_small", "the workspace is smaller than phase 1 asked for"),
            ("workspace_outside_allocation", "the workspace is said to be larger than its memory"),
            ("workspace_not_device_memory", "the workspace is no live device memory"),
            ("memory_of_another_device", "the launch's device does not reach the memory"),
        ),
    ),
    Group(
        check="api",
        causes="an address inside an allocation that is passed for a tensor's storage",
        action="pass the aligned start as the storage, and say by the offset, in elements, where the view begins",
        rows=(("misaligned", "a storage that begins at no multiple of 32 bytes, which CANN leaves undefined"),),
    ),
    Group(
        check="api",
        causes="slots, positions or batches of another call, of another layer's cache, or of padding",
        action="`aclnn-kvcache explain --rules OPERATOR` has what must hold; the fused operator skips no token",
        rows=(
            ("slot_out_of_range", "a slot is outside the caches, and the kernel writes where that leads"),
            (
                "position_out_of_range",
                "a position is outside the table, and the kernel reads where that leads",
            ),
            ("batch_out_of_range", "query_start_loc falls, is negative, or goes past the last token"),
            ("length_below_tokens", "seq_lens is smaller than a batch's tokens, so that positions come out wrong"),
        ),
    ),
    Group(
        check="api",
        causes="an output that is a view with gaps or another order of axes",
        action="pass a dense output, and copy from there",
        rows=(("strides_ignored", "the kernel writes an output as if it were dense, whatever its strides"),),
    ),
    Group(
        check="api",
        causes="a thread that never set its device; each has a current device of its own",
        action="call aclrtSetDevice or aclrtSetCurrentContext in each thread that makes calls",
        rows=(
            ("no_device", "the calling thread has no current device"),
            ("stream_of_another_context", "the stream belongs to another context than the thread's"),
        ),
    ),
    Group(
        check="api",
        causes="two parts of a program that each think they own ACL, or an end that runs too early",
        action="initialise and finalise once, in one place; who gets 100002 leaves finalising to others",
        rows=(
            ("call_before_init", "a call came before aclInit"),
            ("call_after_finalize", "a call came after aclFinalize"),
            ("repeated_init", "ACL was initialised already"),
            ("repeated_finalize", "ACL was finalised already"),
            ("finalize_in_use", "ACL was finalised for everybody while somebody uses it"),
        ),
    ),
    Group(
        check="api",
        causes="an argument that CANN takes and does not do with what was meant",
        action="read the report: it says what was passed and what fits",
        rows=(
            ("copy_kind_mismatch", "the direction of a copy does not fit its addresses, which decide"),
            ("event_not_resettable", "events of aclrtCreateEvent cannot be reset"),
            ("too_many_dimensions", "a tensor has more dimensions than CANN keeps"),
        ),
    ),
    Group(
        check="leak",
        causes="an end that is missing, often on the way of an error",
        action="call what the report names before the end; aclsim_label tells which of many it is",
        rows=(
            ("leaked_device_memory", "device memory is still allocated"),
            ("leaked_host_memory", "memory of aclrtMallocHost is still allocated"),
            ("leaked_host_registration", "memory of the host is still registered"),
            ("leaked_context", "a context is still there"),
            ("leaked_stream", "a stream is still there"),
            ("leaked_stream_config", "a stream configuration is still there"),
            ("leaked_event", "an event is still there"),
            ("leaked_tensor", "a tensor is still there"),
            ("leaked_tensor_list", "a tensor list is still there"),
            ("leaked_scalar", "a scalar is still there"),
            ("leaked_scalar_list", "a scalar list is still there"),
            ("leaked_int_array", "an int array is still there"),
            ("leaked_float_array", "a float array is still there"),
            ("leaked_bool_array", "a bool array is still there"),
            ("leaked_executor", "an executor whose phase 2 never came is still there"),
        ),
    ),
)
