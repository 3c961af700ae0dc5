"""Serves a model with the llama.cpp server of the xllamacpp wheel until killed. Prints its address.

usage: llama_server.py MODEL [PORT]
"""

import sys
import threading

import xllamacpp


def main(model: str, port: int) -> None:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = model
    parameters.port = port
    parameters.n_ctx = 4096
    parameters.n_parallel = 2
    parameters.cpuparams.n_threads = 1
    parameters.model_alias = {"tiny"}
    parameters.use_jinja = True
    server = xllamacpp.Server(parameters)
    print("listening at", server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
