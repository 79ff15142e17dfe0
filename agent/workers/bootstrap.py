# SPDX-License-Identifier: Apache-2.0
# How workers start with --warm=1. `PYTHON -u -c THIS -- SCRIPT ARGS` is `PYTHON -u SCRIPT ARGS` to the script; `--parked SCRIPT` instead
# imports what the script will import, and waits at its standard input, a socket, for a place in a round (docs/warm-workers.md).
# Before a script runs in the first way nothing is imported that Python itself has not.
def _start():
    import os, sys
    main, ours, words = sys.modules["__main__"], sys._getframe().f_code.co_filename, sys.argv[2:]
    del main._start

    def set_path():
        """sys.path[0] as Python sets it; whether the script is a folder or archive."""
        is_safe = getattr(sys.flags, "safe_path", sys.flags.isolated)
        if not is_safe:
            del sys.path[0]
        for hook in sys.path_hooks if words[0] != "-m" else ():
            try:
                hook(words[0])
            except ImportError:
                continue
            sys.path.insert(0, words[0])
            return True
        if not is_safe:
            sys.path.insert(0, os.getcwd() if words[0] == "-m" else os.path.dirname(os.path.realpath(words[0])))
        return False

    def run(is_folder):
        if words[0] == "-m" or is_folder:
            sys.argv[:] = words[2:] if words[0] == "-m" else words
            if words[0] == "-m":
                sys.argv.insert(0, "-m")
            import runpy
            return runpy._run_module_as_main("__main__" if is_folder else words[1], not is_folder)
        import _frozen_importlib_external as files
        path = os.path.join(os.getcwd(), words[0])
        is_compiled = path.endswith(".pyc")
        sys.argv[:], main.__file__ = words, path
        main.__loader__ = (files.SourcelessFileLoader if is_compiled else files.SourceFileLoader)("__main__", path)
        if sys.version_info < (3, 15):
            main.__cached__ = None
        try:
            source = main.__loader__.get_data(path)
        except OSError as error:
            print(f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)
            sys.exit(2)
        code = main.__loader__.get_code("__main__") if is_compiled else main.__loader__.source_to_code(source, path)
        exec(code, main.__dict__)

    def is_import(node):
        kind = type(node).__name__
        return kind in ("Import", "ImportFrom") or kind == "Try" and all(map(is_import, node.body))

    def imports_of(body):
        """Up to the first statement that could change what an import finds; then None."""
        for node in body:
            kind = type(node).__name__
            if kind == "Import":
                yield from ((alias.name, ()) for alias in node.names)
            elif kind == "ImportFrom":
                yield (None, ()) if node.level else (node.module, [alias.name for alias in node.names if alias.name != "*"])
            elif kind == "Try" and is_import(node):
                yield from imports_of(node.body)
            elif kind == "Expr" and isinstance(getattr(node.value, "value", None), str) or (
                    kind in ("FunctionDef", "AsyncFunctionDef", "ClassDef")):
                continue
            else:
                yield None, ()

    def early_imports():
        """Of the script, in its order: those of packages and of the standard library. Its own modules are read for theirs, not run: they
        may change. It ends where a statement comes that is no import: after that an import may find something else."""
        library, find, seen = os.path.dirname(os.__file__), sys.modules["_frozen_importlib"]._find_spec, set()

        def of_file(path):
            """Whether what comes after it may be imported early, too."""
            if path in seen:
                return True
            seen.add(path)
            try:
                with open(path, "rb") as file:  # 0x400: only a syntax tree
                    found = list(imports_of(compile(file.read(), path, "exec", 0x400).body))
            except (OSError, SyntaxError, ValueError, RecursionError):
                return False
            for name, parts in found:
                if name is None:
                    return False
                top = name.partition(".")[0]
                spec = find(top, None)
                places = [spec.origin or "", *(spec.submodule_search_locations or ())] if spec else []
                if any("-packages" + os.sep in p or p.startswith((library, "built-in", "frozen")) for p in places):
                    early.append((name, parts))
                    if top == "torch":
                        early.append(("torch._dynamo", ()))  # by the first optimizer
                elif not places:
                    continue  # optional, or the script's own error
                elif name != top or parts and not places[0].endswith(".py") or not of_file(places[0]):
                    return False
            return True

        early = []
        paths = [words[0]]
        if words[0] == "-m":
            path = os.path.join(*words[1].split("."))
            # A parent may change what is found.
            paths = [os.path.join(p, path + end) for p in sys.path for end in (".py", "/__main__.py") if "." not in words[1]]
        path = next((p for p in paths if p.endswith(".py") and os.path.isfile(p)), None)
        if path:
            of_file(path)
        return early

    def park():
        nonlocal words
        import _socket
        gate = _socket.socket(fileno=os.dup(0))
        with open(os.devnull) as null:
            os.dup2(null.fileno(), 0)

        def receive(count):
            byte, more, _, _ = gate.recvmsg(1, _socket.CMSG_SPACE(4 * count), _socket.MSG_CMSG_CLOEXEC)
            if not byte:
                os._exit(0)
            came = [int.from_bytes(more[0][2][at:at + 4], sys.byteorder) for at in range(0, 4 * count, 4)]
            with open(came.pop(), "rb") as file:
                return came, [os.fsdecode(text) for text in file.read().split(b"\0")[:-1]]

        adjust, nice, is_folder = "/proc/self/oom_score_adj", os.getpriority(0, 0), set_path()
        was, read, here, standard = dict(os.environ), {}, os.getcwd(), open(adjust).read()

        def set_nice(value):
            for thread in os.listdir("/proc/self/task"):
                try:
                    os.setpriority(0, int(thread), value)
                except ProcessLookupError:
                    pass  # it has ended

        class Recorded(os._Environ):
            def __getitem__(self, name):
                frame = sys._getframe(1)
                while frame.f_back and frame.f_globals.get("__name__") in ("os", "collections.abc"):
                    frame = frame.f_back
                read.setdefault(name, frame.f_globals.get("__name__"))
                return super().__getitem__(name)

        def identity_of(path):
            about = os.stat(path)
            return about.st_ino, about.st_size, about.st_mtime_ns

        def files_of(names):
            return filter(os.path.isfile, {str(vars(sys.modules[name]).get("__file__")) for name in names if hasattr(sys.modules[name], "__dict__")})

        def write(path, text):
            with open(path, "w") as file:
                file.write(text)

        names = receive(1)[1]
        before, sys.argv, problem, plain = set(sys.modules), words[:1], "", os.environ.__class__
        is_adjusted = int(standard) < 500
        try:
            if is_adjusted:
                write(adjust, "500")
        except OSError:
            is_adjusted = False
        try:
            set_nice(nice - 1)  # allowed only where a lower priority can be undone
            set_nice(19)
        except OSError:
            pass
        os.environ.__class__ = Recorded
        try:
            for name, parts in list(early_imports()):
                try:
                    __import__(name, {}, {}, parts)
                except ImportError:
                    pass  # optional, or the script's own error
        except BaseException as error:
            problem = f"{type(error).__name__} in an import: {error}"
        os.environ.__class__ = plain
        if os.getpriority(0, 0) != nice:
            set_nice(nice)
        for name in filter(read.__contains__, names):
            problem = problem or f"{read[name]} reads {name} when it is imported"
        for number in os.listdir("/proc/self/fd"):
            if os.path.realpath("/proc/self/fd/" + number).startswith(("/dev/nvidia", "/dev/kfd", "/dev/dri")):
                problem = problem or "an import opens a GPU"
        loaded = {path: identity_of(path) for path in files_of(set(sys.modules) - before)}
        with open("/proc/self/smaps_rollup") as file:
            kib = sum(int(line.split()[1]) for line in file if line.startswith("Private_"))
        gate.sendall((f"unfit {problem}" if problem else f"parked {kib << 10}").replace("\n", " ").encode(errors="replace")[:1000] + b"\n")

        streams, texts = receive(4)
        count = int(texts[0])
        command, now = texts[1:count + 1], dict(text.split("=", 1) for text in texts[count + 1:])
        os.chdir(here)
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
            os.close(descriptor)
        gate.close()
        is_stale = any(was.get(name) != now.get(name) for name in read)
        try:
            if is_adjusted:
                write(adjust, standard)
        except OSError:
            pass  # the kernel then ends this worker before others
        try:
            is_stale |= any(identity_of(path) != known for path, known in loaded.items())
        except OSError:
            is_stale = True
        if is_stale:  # as if it were started now
            os.execve(command[0], command, now)
        for name in was.keys() - now.keys():
            os.environ.pop(name, None)
        for name in now:
            if was.get(name) != now[name]:
                os.environ[name] = now[name]
        words = command[command.index("--") + 1:]
        if hasattr(sys, "orig_argv"):
            sys.orig_argv[:] = command
        for name, mode, buffering in ("stdin", "rb", -1), ("stdout", "wb", 0), ("stderr", "wb", 0):
            old = getattr(sys, name)
            if old is getattr(sys, f"__{name}__"):
                file = open(old.fileno(), mode, buffering, closefd=False)
                (file.raw if buffering else file).name = f"<{name}>"
                new = type(old)(file, old.encoding, old.errors, "\n", write_through=not buffering)
                new.mode = mode[0]
                setattr(sys, name, new)
                setattr(sys, f"__{name}__", new)
        return is_folder

    def without_ours(kind, error, trace):
        while trace and trace.tb_frame.f_code.co_filename == ours:
            trace = trace.tb_next
        sys.excepthook, sys.last_traceback = hook, trace
        hook(kind, error.with_traceback(trace), trace)

    is_folder = park() if sys.argv[1] == "--parked" else set_path()
    at = sys.orig_argv.index("-c") if hasattr(sys, "orig_argv") else 0
    if at:
        del sys.orig_argv[at:at + 3]
    try:
        run(is_folder)
    except SystemExit:
        raise
    except BaseException:
        hook, sys.excepthook = sys.excepthook, without_ours
        raise


_start()
