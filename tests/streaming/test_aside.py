"""Work beside: its result or its failure, and that others get their turn."""

from __future__ import annotations

import sys
import threading

import pytest

from streaming.aside import SWITCH_S, in_a_thread


def test_what_comes_of_it_is_kept() -> None:
    assert in_a_thread(lambda: threading.current_thread().daemon).result(60) is True
    assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
    with pytest.raises(ZeroDivisionError):
        in_a_thread(lambda: 1 // 0).result(60)
