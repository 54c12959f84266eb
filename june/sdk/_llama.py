"""
A llama.cpp server in a process of its own, which runs this file; `june.sdk.local` starts it.

It reads what to serve from its input, a line of JSON, and says on its output where it listens. It ends with
its input, and so with the process that holds the other end, however that ends.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Mapping
from typing import Any


def serve() -> None:
    """Serve until the input ends."""
    told = json.loads(sys.stdin.readline())
    # Libraries may print; whoever waits for the address is to read nothing else.
    out = os.dup(1)
    os.dup2(2, 1)
    sys.path[:] = told["sys_path"]
    llama: Any = importlib.import_module("xllamacpp")
    server = llama.Server(_params(llama, told))
    os.write(out, json.dumps({"address": server.listening_address}).encode() + b"\n")
    sys.stdin.read()
    # The server's own end would wait for answers that nobody is there to read.
    os._exit(0)


def _params(llama: Any, told: Mapping[str, Any]) -> Any:
    params = llama.CommonParams()
    params.model.path = told["path"]
    params.model_alias = {told["name"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [told["key"]]
    params.ui = False
    # Errors only; what it says of requests is nobody's business.
    params.verbosity = 1
    # The context is shared out among the conversations that go on at once.
    params.n_ctx = told["context"] * told["parallel"]
    params.n_parallel = told["parallel"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = told["threads"]
    if told["gpu_layers"] is not None:
        params.n_gpu_layers = told["gpu_layers"]
    params.use_jinja = True
    if told["template"] is not None:
        params.chat_template = told["template"]
    return params


if __name__ == "__main__":
    serve()
