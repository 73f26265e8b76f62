"""A demo whose registry and agents start warm: `warm_demo.py PYTHON MODULE [ARGUMENT]...`."""

import os
import runpy
import sys

from examples.mesh import mesh

if __name__ == "__main__":
    mesh.PYTHON, module, *arguments = sys.argv[1:]
    sys.argv = [module, *arguments]
    sys.path[0] = os.getcwd()  # as with `python -m`
    runpy.run_module(module, run_name="__main__", alter_sys=True)
