"""What all tests of the tool need of their process."""

from __future__ import annotations

import signal

# A job in the background, or under nohup, is started with these ignored, and so would be each program that a test starts
# and interrupts: https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_11. What is handled
# here has its default in a program that is started.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda _number, _frame: None)
