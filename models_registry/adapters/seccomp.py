"""System calls that no model needs, refused by the kernel inside the sandbox (seccomp).

Everything is allowed but what is listed here: ways to other namespaces and mounts, to other
processes, to kernel modules, BPF, io_uring and keyrings, to clocks and devices, to any network.
Calls newer than this list answer "not implemented", which every C library falls back from.
Compared with the lists of Docker (docs.docker.com/engine/security/seccomp) and Flatpak.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

# Mounts; namespaces; other processes; the kernel itself; keyrings; files by handle; disks; clocks;
# names; memory of NUMA nodes and pipes; watching; System V and POSIX message queues.
_NOT_PERMITTED: Final = """
    mount umount umount2 pivot_root chroot
    unshare setns
    ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd process_madvise process_mrelease
    migrate_pages move_pages
    bpf perf_event_open userfaultfd kexec_load kexec_file_load init_module finit_module
    delete_module create_module query_module get_kernel_syms lookup_dcookie syslog _sysctl sysfs
    uselib acct reboot vhangup nfsservctl modify_ldt iopl ioperm
    add_key keyctl request_key
    open_by_handle_at name_to_handle_at
    quotactl quotactl_fd swapon swapoff
    settimeofday stime clock_settime clock_adjtime adjtimex
    sethostname setdomainname
    mbind set_mempolicy set_mempolicy_home_node memfd_secret remap_file_pages vmsplice splice tee
    fanotify_init fanotify_mark
    msgget semget shmget mq_open
"""
# Programs take "not implemented" as "use the older call"; clone3 hides its flags behind a pointer,
# and a memfd is memory that no limit counts.
_NOT_IMPLEMENTED: Final = """
    clone3 io_uring_setup io_uring_enter io_uring_register io_setup io_submit
    open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr memfd_create
"""
_NEWER_CALLS: Final = range(451, 600)
"""From 424 on numbers are the same on all machines (Linux, include/uapi/asm-generic/unistd.h)."""

# clone(2): CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.
_NEW_NAMESPACES: Final = (
    0x0002_0000,
    0x0200_0000,
    0x0400_0000,
    0x0800_0000,
    0x1000_0000,
    0x2000_0000,
    0x4000_0000,
)
_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C
_ASK_PERSONALITY: Final = 0xFFFF_FFFF
_LOW_HALF: Final = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Filter:
    """A compiled filter for `bwrap --seccomp`, or why there is none (`missing`)."""

    program: bytes = b""
    missing: str = ""


@lru_cache(maxsize=1)
def build() -> Filter:
    """Compile the filter, once per process; never raises."""
    try:
        # Optional: it is bound to a system library that a machine may not have.
        import pyseccomp
    except (ImportError, OSError, RuntimeError) as error:
        return Filter(missing=f"libseccomp cannot be loaded ({error})")
    try:
        rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
        _refuse(pyseccomp, rules)
        descriptor = os.memfd_create("filter", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "w+b") as file:
            rules.export_bpf(file)
            file.seek(0)
            return Filter(file.read())
    except (OSError, ValueError) as error:
        return Filter(missing=f"libseccomp cannot build the filter ({error})")


def _refuse(library: Any, rules: Any) -> None:
    not_permitted = library.ERRNO(errno.EPERM)
    not_implemented = library.ERRNO(errno.ENOSYS)
    for name in _NOT_PERMITTED.split():
        if _known(library, name):
            rules.add_rule(not_permitted, name)
    for name in _NOT_IMPLEMENTED.split():
        if _known(library, name):
            rules.add_rule(not_implemented, name)
    for number in _NEWER_CALLS:
        rules.add_rule(not_implemented, number)
    for flag in _NEW_NAMESPACES:
        rules.add_rule(not_permitted, "clone", library.Arg(0, library.MASKED_EQ, flag, flag))
    for request in (_TIOCSTI, _TIOCLINUX):  # the kernel looks at the low half only
        argument = library.Arg(1, library.MASKED_EQ, _LOW_HALF, request)
        rules.add_rule(not_permitted, "ioctl", argument)
    argument = library.Arg(0, library.NE, _ASK_PERSONALITY)
    rules.add_rule(not_permitted, "personality", argument)
    no_family = library.ERRNO(errno.EAFNOSUPPORT)
    for name in ("socket", "socketpair"):
        rules.add_rule(no_family, name, library.Arg(0, library.NE, int(socket.AF_UNIX)))


def _known(library: Any, name: str) -> bool:
    """Whether this machine has the call; -1 and below are none (seccomp_syscall_resolve_name)."""
    try:
        return int(library.resolve_syscall(library.system_arch(), name)) >= 0
    except (OSError, ValueError):
        return False


@contextmanager
def handed(program: bytes) -> Iterator[tuple[list[str], tuple[int, ...]]]:
    """Options for bwrap and the descriptors that it inherits; nothing of either without program.

    bwrap reads the descriptor to its end and closes it before it starts anything.
    """
    if not program:
        yield [], ()
        return
    descriptor = os.memfd_create("filter", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, program)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield ["--seccomp", str(descriptor)], (descriptor,)
    finally:
        os.close(descriptor)
