"""`python -m heliograph.management`: the management process, started by a node."""

import os
import sys
from types import SimpleNamespace

from heliograph._pure import prefer_sources

if __name__ == "__main__":
    # FastAPI looks whether a model is one of the first version of pydantic, and imports that for it: there are none.
    sys.modules["pydantic.v1"] = None  # type: ignore[assignment]  # as the import system has it

    # What uvicorn brings for its command line: click, and supervisors of processes.
    sys.modules["uvicorn.main"] = SimpleNamespace(Server=None, main=None, run=None)  # type: ignore[assignment]  # what stands for a module

    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"  # to look for some, it reads what is installed beside it

    from pydantic import BaseModel

    # FastAPI has models of a whole OpenAPI document, which this process never makes; each is built at its first use.
    BaseModel.model_config["defer_build"] = True

    # Of the compiled modules it uses one small one, which would bring the library of all of them.
    prefer_sources()

    from heliograph.management.program import main

    sys.exit(main())
