"""A forked process says that its arithmetic would wait forever, and goes on where it would not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = """
import os, threading, torch, numpy as np
torch.set_num_threads(2)
from benthic import KMeans
X = np.random.default_rng(0).normal(size=(60, 3))

def fit():
    KMeans(2, random_state=0).fit(X)

def share():
    torch.ones(1000, 1000).exp_()  # large enough to be shared among threads

def none_wanted():
    torch.set_num_threads(1)
    fit()

def in_a_thread():
    begun = threading.Thread(target=fit)
    begun.start()
    begun.join()

def forked(*work):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 9
    try:
        for part in work:
            part()
        code = 0
    except RuntimeError as error:
        code = 3 if "get_context('spawn')" in str(error) else 4
    finally:
        os._exit(code)

fit()
found = [forked(fit, share, fit)]
share()
print(found + [forked(fit), forked(none_wanted), forked(in_a_thread)])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_process_fits_or_says_why_not():
    found = subprocess.run([sys.executable, "-c", CODE], check=True, timeout=120, capture_output=True, text=True)
    # where there were no threads; where they were lost; where none are wanted; in a thread that begins there
    assert found.stdout.split("\n")[0] == "[0, 3, 0, 0]"
