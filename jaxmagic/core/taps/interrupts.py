"""Notices Ctrl-C while the main thread waits inside XLA, where Python can't run its signal handler."""

import os
import signal
import socket
import threading


class Interrupts:
    """A wake-up descriptor for signals, which Python writes to at once from any state of the interpreter."""

    def __init__(self) -> None:
        self._reader: socket.socket | None = None
        self._writer: socket.socket | None = None
        self._before = -1

    def start(self) -> None:
        """Installs the descriptor; does nothing off the main thread, where Python allows none."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)

    def stop(self) -> None:
        """Puts the earlier descriptor back and hands on what it missed."""
        if self._reader is None or self._writer is None:
            return
        signal.set_wakeup_fd(self._before)
        self.interrupted()
        self._reader.close()
        self._writer.close()
        self._reader = self._writer = None

    def interrupted(self) -> bool:
        """Whether an interrupt arrived since the last look; on any thread."""
        try:
            signals = self._reader.recv(64) if self._reader else b""
        except (BlockingIOError, OSError):
            return False
        if signals and self._before >= 0:
            self._hand_on(signals)
        return signal.SIGINT in signals

    def _hand_on(self, signals: bytes) -> None:
        # Whoever owned the descriptor (an event loop, in a kernel) waits for these bytes.
        try:
            os.write(self._before, signals)
        except OSError:
            self._before = -1
