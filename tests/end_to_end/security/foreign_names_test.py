"""What another user has made under a name that this one uses: it is neither run, nor followed, nor written to."""

import os
import socket
import subprocess
import sys
import tempfile
import unittest

HERE_FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE_FOLDER))
sys.path.insert(0, os.path.join(os.path.dirname(HERE_FOLDER), "start"))

import support
from start_test import StartTest
from support import free_port, program

USER, OTHER, NOBODY = 61234, 61235, 65534

# Takes names of the claim to host: of that user and run id, listening or not.
SQUATTER = r"""
import socket, sys
user, run_id, listens = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "listens"
value = 14695981039346656037
for byte in run_id.encode():
    value = (value ^ byte) * 1099511628211 % 2**64
held = []
for name in [f"ddprun-host-{value:016x}"] + [f"ddprun-host-{user}-{value:016x}-{number}" for number in range(int(sys.argv[4]))]:
    held.append(socket.socket(socket.AF_UNIX))
    held[-1].bind("\0" + name)
    if listens:
        held[-1].listen()
print("ready", flush=True)
sys.stdin.read()
"""


@unittest.skipUnless(os.geteuid() == 0, "skipped: not root, so nobody else can be had")
class OthersNames(StartTest):
    def as_user(self, user):
        return ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")

    def setUp(self):
        super().setUp()
        if subprocess.run([*self.as_user(USER), "test", "-x", program("ddprun")], check=False).returncode != 0:
            self.skipTest("skipped: another user cannot run the programs that were built here")
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        self.shared = self.enterContext(tempfile.TemporaryDirectory())
        os.chmod(self.shared, 0o1777)

    def others(self, name, text="", owner=OTHER):
        path = os.path.join(self.shared, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o777)
        os.chown(path, owner, owner)
        return path

    def test_lines_are_not_written_for_somebody_else(self):
        file = self.others("file")
        mine = self.others("mine", owner=USER)
        link = os.path.join(self.shared, "link")
        os.symlink(mine, link)
        os.lchown(link, OTHER, OTHER)
        for flag in ("--events", "--log-file"):
            for name in (file, link):
                code, out, err = self.run_job(flag, name, "echo", "never", prefix=self.as_user(USER), cwd="/")
                self.assertEqual((code, out), (2, ""), err)
                self.assertIn(f"{flag} '{name}': it belongs to another user (uid {OTHER})", err)
        code, out, err = self.run_job("--events", mine, "echo", "once", prefix=self.as_user(USER), cwd="/")
        self.assertEqual((code, out), (0, "once"), err)
        self.assertGreater(os.path.getsize(mine), 0)
        self.assertEqual(os.path.getsize(file), 0)

    def test_another_hosts_files_are_not_used(self):
        """Host b has, by the same name, what another user has made there."""
        with open(os.path.join(self.shared, "run"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho mine\n")
        os.chmod(file.name, 0o755)
        for what in ("directory", "program"):
            with self.subTest(what):
                folder = os.path.join(self.shared, what)
                os.mkdir(folder)
                inside = os.path.join(folder, "run")
                os.link(file.name, inside)
                taken = folder if what == "directory" else inside
                rsh = self.script(what, f'[ "$1" = b ] && chown {OTHER}:{OTHER} {taken}\nexec /bin/sh -c "$2"')
                code, out, err = self.run_start("--hosts", "a,b", "--grace=1", inside, rsh=rsh, cwd=folder)
                self.assertEqual((code, out), (71, ""), err)
                # The two hosts are one machine here, so either of them may find it so.
                self.assertRegex(err, f"[ab]: {taken} belongs to another user there .uid {OTHER}., and is not used")
                os.chown(file.name, 0, 0)

    def test_another_hosts_file_is_not_used_by_any_word(self):
        told = os.path.join(self.shared, "told.toml")
        with open(told, "w", encoding="utf-8") as file:
            file.write("wrap = '*:./told.sh'\n")
        own = self.enterContext(tempfile.TemporaryDirectory())  # nobody else's, with a link into a folder that is anybody's
        os.chmod(own, 0o755)
        os.symlink(os.path.join(self.shared, "linked.sh"), os.path.join(own, "linked.sh"))
        rows = (("script.py", ("/usr/bin/python3", "script.py"), {}),
                ("linked.sh", ("/bin/sh", os.path.join(own, "linked.sh")), {}),
                ("wrapped.py", ("--wrap", "*:/usr/bin/python3 -u wrapped.py", "true"), {}),
                ("quoted.sh", ("--wrap", "*:'./quoted.sh'", "true"), {}),
                ("own.sh", ("--program=*:/bin/sh own.sh", "true"), {}),
                ("behind.sh", ("--program=*:sh -c 'true;./behind.sh'", "true"), {}),
                ("judge.sh", ("--on-failure", "./judge.sh", "false"), {}),
                ("told.sh", ("--config", told, "true"), {}),
                ("variable.toml", ("true",), {"DDPRUN_CONFIG": "variable.toml"}),
                ("variable.sh", ("true",), {"DDPRUN_WRAP": "*:./variable.sh"}),
                ("later.sh", ("false",), {"DDPRUN_ON_FAILURE": f"{self.shared}/later.sh"}),
                ("python", ("x.py",), {"PYTHON_EXEC": f"{self.shared}/python"}),
                ("list", ("cat", f"--files=/tmp/a,{self.shared}/list"), {}),
                ("data", ("cat", f"--show-ends={self.shared}/data"), {}))
        for name, words, variables in rows:
            with self.subTest(name):
                path = os.path.join(self.shared, name)
                with open(path, "w", encoding="utf-8") as file:
                    file.write("")
                os.chmod(path, 0o755)
                # The two hosts are one machine here, so either of them may find it so.
                rsh = self.script(name, f'[ "$1" = b ] && chown {OTHER}:{OTHER} {path}\nexec /bin/sh -c "$2"')
                code, out, err = self.run_start("--hosts", "a,b", "--grace=1", *words, rsh=rsh, cwd=self.shared, env=variables)
                self.assertEqual((code, out), (71, ""), err)
                self.assertRegex(err, rf"[ab]: \S*{name} belongs to another user there .uid {OTHER}., and is not used")

    def planted(self, name, *words, env=None):
        """What comes of a job on a host b where a file of the shared folder is another user's."""
        path = os.path.join(self.shared, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.exists(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\n")
        os.chmod(path, 0o755)
        # The two hosts are one machine here, so either of them may find it so.
        rsh = self.script("planted", f'[ "$1" = b ] && chown {OTHER}:{OTHER} {path}\nunset LD_PRELOAD\nexec /bin/sh -c "$2"')
        return self.run_start("--hosts", "a,b", "--grace=1", *words, rsh=rsh, cwd=self.shared, env=env or {})

    def assert_refused(self, name, result):
        code, out, err = result
        self.assertEqual((code, out), (71, ""), err)
        self.assertRegex(err, rf"[ab]: \S*{name} belongs to another user there .uid {OTHER}., and is not used")

    def test_what_is_another_users_here_by_one_word_is_so_by_that_word_alone(self):
        data = self.others("data")
        self.assert_refused("x.py", self.planted("x.py", "/usr/bin/python3", "x.py", "--data", data))

    def test_another_hosts_program_is_not_used_where_path_leads_to_it(self):
        tools = os.path.join(self.shared, "tools")
        os.mkdir(tools)
        os.chmod(tools, 0o1777)
        path = {"PATH": f"{tools}:{os.environ['PATH']}"}
        for name, words in (("tool", ("tool",)), ("wrapped", ("--wrap=*:wrapped", "true")), ("python3", ("--module", "site")),
                            ("shells", ("sh", "-c", "exec shells"))):
            with self.subTest(name):
                self.assert_refused(name, self.planted(f"tools/{name}", *words, env=path))
                os.remove(os.path.join(tools, name))
        with self.subTest("found before"):  # PATH leads to another one, whatever lies there
            code, _, err = self.planted("tools/true", "true", env={"PATH": f"/usr/bin:{tools}:{os.environ['PATH']}"})
            self.assertEqual(code, 0, err)

    def test_another_hosts_module_is_not_used(self):
        for name, words in (("mod.py", ("-m", "mod")), ("mod.py", ("/usr/bin/python3", "-m", "mod")),
                            ("mod.py", ("sh", "-c", "/usr/bin/python3 -um mod")), ("mod/__main__.py", ("/usr/bin/python3", "-m", "mod")),
                            ("mod/sub.py", ("-m", "mod.sub")), ("importlib.py", ("/usr/bin/python3", "-m", "site")),
                            ("__pycache__", ("/usr/bin/python3", "-m", "mod"))):
            with self.subTest((name, words)):
                if name == "__pycache__":
                    os.mkdir(os.path.join(self.shared, name))
                elif "/" in name:
                    os.makedirs(os.path.join(self.shared, "mod"))
                    os.chmod(os.path.join(self.shared, "mod"), 0o1777)
                self.assert_refused(name, self.planted(name, *words))
                subprocess.run(["rm", "-r", os.path.join(self.shared, name.split("/", maxsplit=1)[0])], check=True)

    def test_another_hosts_folder_is_not_run(self):
        folder = os.path.join(self.shared, "pkg")
        os.mkdir(folder)
        main = os.path.join(folder, "__main__.py")
        with open(main, "w", encoding="utf-8") as file:
            file.write("print('mine')")
        for name in ("pkg", "pkg/__main__.py"):
            for words in (("/usr/bin/python3", "pkg"), ("./pkg",), ("--wrap=*:/usr/bin/python3 pkg", "true")):
                with self.subTest((name, words)):
                    if name == "pkg" and words[0].startswith("--wrap"):
                        continue  # what is not run may be somebody else's: a folder of data
                    os.chmod(folder, 0o1777)
                    self.assert_refused("pkg" if words[0] == "./pkg" and name == "pkg" else name, self.planted(name, *words))
                    os.chown(folder, 0, 0)
                    os.chown(main, 0, 0)

    def test_another_hosts_folder_of_data_is_used(self):
        os.mkdir(os.path.join(self.shared, "data"))
        code, out, err = self.planted("data", "echo", "--data", "data", f"{self.shared}/data")
        self.assertEqual((code, out.splitlines()[:1]), (0, [f"--data data {self.shared}/data"]), err)

    def test_what_variables_name_on_another_host_is_not_used(self):
        folder = os.path.join(self.shared, "lib")
        os.mkdir(folder)
        os.chmod(folder, 0o1777)
        rows = (("p.so", "LD_PRELOAD", f"{self.shared}/p.so"), ("env.sh", "BASH_ENV", f"{self.shared}/env.sh"),
                ("lib/sitecustomize.py", "PYTHONPATH", folder), ("lib/numpy", "PYTHONPATH", f"/none:{folder}"),
                ("sitecustomize.py", "PYTHONPATH", "/none:"), ("lib", "PYTHONPATH", folder), ("lib/libx.so.1", "LD_LIBRARY_PATH", folder),
                ("lib/strict.pm", "PERL5LIB", folder), ("lib", "PYTHONHOME", folder))
        for name, variable, value in rows:
            for way in ("environment", "--env", "--env-rank", "text"):
                with self.subTest((name, variable, way)):
                    os.chmod(folder, 0o1777)
                    if name == "lib/numpy":
                        os.makedirs(f"{folder}/numpy", exist_ok=True)
                        with open(f"{folder}/numpy/__init__.py", "w", encoding="utf-8"):
                            pass
                    words = {"environment": ("true",), "--env": ("--env", f"{variable}={value}", "true"),
                             "--env-rank": (f"--env-rank=*:{variable}={value}", "true"),
                             "text": ("sh", "-c", f"{variable}={value} true")}[way]
                    self.assert_refused(name, self.planted(name, *words, env={variable: value} if way == "environment" else {}))
                    os.chown(os.path.join(self.shared, name), 0, 0)
                    if os.path.isfile(os.path.join(self.shared, name)):
                        os.remove(os.path.join(self.shared, name))
                    elif name != "lib":
                        subprocess.run(["rm", "-r", os.path.join(self.shared, name)], check=True)

    def test_what_a_colleague_has_here_too_is_used(self):
        """A colleague's folder, and one of a group: programs, modules and libraries in them."""
        theirs = os.path.join(self.shared, "theirs")
        os.mkdir(theirs)
        for name, text in (("tool", "#!/bin/sh\necho tool\n"), ("mod.py", "print('mod')\n"), ("sitecustomize.py", ""), ("libx.so", "")):
            with open(os.path.join(theirs, name), "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(file.name, 0o755)
        for owner, mode in ((OTHER, 0o755), (0, 0o2775)):
            subprocess.run(["chown", "-R", f"{owner}:{OTHER}", theirs], check=True)
            os.chmod(theirs, mode)
            rows = ((("tool",), {"PATH": f"{theirs}:{os.environ['PATH']}"}, "tool"),
                    ((f"{theirs}/tool",), {}, "tool"), (("/usr/bin/python3", f"{theirs}/mod.py"), {}, "mod"),
                    (("/usr/bin/python3", "-m", "mod"), {"PYTHONPATH": theirs, "LD_LIBRARY_PATH": theirs}, "mod"))
            for words, variables, said in rows:
                with self.subTest((owner, words)):
                    code, out, err = self.run_start("--hosts", "a,b", "--grace=1", *words, cwd="/", env=variables)
                    self.assertEqual((code, out), (0, f"{said}\n{said}"), err)

    def test_what_another_user_can_lead_elsewhere_on_another_host_is_not_used(self):
        own = self.enterContext(tempfile.TemporaryDirectory())
        os.chmod(own, 0o755)
        with open(os.path.join(own, "run"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho mine\n")
        os.chmod(file.name, 0o755)
        way = os.path.join(self.shared, "way")
        os.mkdir(way)
        os.symlink(own, os.path.join(way, "link"))
        # The two hosts are one machine here, so either of them may find it so.
        rsh = self.script("way", f'[ "$1" = b ] && chown {OTHER}:{OTHER} {way}\nexec /bin/sh -c "$2"')
        for words in ((f"{way}/link/run",), ("/bin/sh", f"{way}/link/run"), ("/bin/sh", f"{way}/later.sh")):
            with self.subTest(words):
                os.chown(way, 0, 0)
                code, out, err = self.run_start("--hosts", "a,b", "--grace=1", *words, rsh=rsh, cwd="/")
                self.assertEqual((code, out), (71, ""), err)
                self.assertRegex(err, f"[ab]: {words[-1]} belongs to another user there .uid {OTHER}., and is not used")
        # Where it is so here, too, the user has chosen it.
        code, out, err = self.run_start("--hosts", "a,b", "--grace=1", f"{way}/link/run", rsh=rsh, cwd="/")
        self.assertEqual((code, out), (0, "mine\nmine"), err)

    def test_what_belongs_to_somebody_else_here_too_is_used(self):
        path = self.others("theirs", "print('theirs')")
        code, out, err = self.run_start("--hosts", "a,b", "--grace=1", "/usr/bin/python3", "theirs", cwd=self.shared)
        self.assertEqual((code, out), (0, "theirs\ntheirs"), f"{path}: {err}")

    def test_another_hosts_nobody_is_another_user(self):
        with open(os.path.join(self.shared, "run"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho mine\n")
        os.chmod(file.name, 0o755)
        rsh = self.script("nobody", f'[ "$1" = b ] && chown {NOBODY} {file.name}\nexec /bin/sh -c "$2"')
        code, out, err = self.run_start("--hosts", "a,b", "--grace=1", file.name, rsh=rsh, cwd="/")
        self.assertEqual((code, out), (71, ""), err)
        self.assertRegex(err, f"[ab]: {file.name} belongs to another user there .uid {NOBODY}., and is not used")
        # Where it is so here, too, the user has chosen it.
        code, out, err = self.run_start("--hosts", "a,b", "--grace=1", file.name, rsh=rsh, cwd="/")
        self.assertEqual((code, out), (0, "mine\nmine"), err)

    def bootstrapped(self, change, who=(), shell="/bin/sh"):
        """What comes of a job on a host that has been changed so; the launcher is there as /mnt/way/bin/ddprun, something else of
        root's as /mnt/else/ddprun. Says so by a line "planted" where that was run."""
        launcher = "/mnt/way/bin/ddprun"
        begin = f"""mount -t tmpfs -o mode=0755 none /mnt; mkdir -p /mnt/way/bin /mnt/else; cp {program("ddprun")} {launcher}
            printf '#!/bin/sh\ntouch /mnt/planted\nexit 127\n' >/mnt/else/ddprun; chmod 755 /mnt/else/ddprun
            {" ".join(who)} "$0" "$@"; code=$?; [ -e /mnt/planted ] && echo planted; exit $code"""
        rsh = self.script("changed", f'cd /mnt/way && {change}; cd /; PATH=/usr/bin:/bin; exec {shell} -c "$2"')
        os.chmod(rsh, 0o755)
        os.chmod(self.folder, 0o1777)
        done = subprocess.run(["unshare", "-m", "sh", "-c", begin, launcher, "--rsh", rsh, "--master-addr=127.0.0.1", "--no-ship",
                               "--hosts", "b", "/bin/echo", "here"], text=True, capture_output=True, env=self.environment, cwd="/",
                              timeout=support.HANG_GUARD, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_another_hosts_ddprun_is_not_run_where_somebody_else_can_have_led_to_it(self):
        if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("skipped: no mount namespaces here")
        lead = f"mv bin away && ln -s ../else bin && chown -h {OTHER} bin"
        for change in (f"mv bin/ddprun away && ln -s /mnt/else/ddprun bin/ddprun && chown -h {OTHER} bin/ddprun && chmod 1777 bin",
                       f"chmod 1777 . && {lead}", f"chgrp {OTHER} . && chmod 775 . && {lead}", f"chown {OTHER} . && {lead}",
                       f"chown {OTHER} bin", f"chown {NOBODY} bin/ddprun"):
            with self.subTest(change):
                code, out, err = self.bootstrapped(change)
                self.assertEqual((code, out), (71, ""), err)
                self.assertIn("--no-ship", err)
        for change in (":", "chmod 1777 .", "chmod 775 . bin", f"mv bin away && ln -s away bin && chown -h {OTHER} bin",
                       "mv bin away && ln -s /mnt/way/away bin && chmod 1777 ."):
            with self.subTest(change):
                self.assertEqual(self.bootstrapped(change), (0, "here\n", ""))

    def test_another_host_whose_namespace_lacks_root_has_roots_files(self):
        lacking = ("unshare", "-U", "--map-current-user")
        if subprocess.run([*self.as_user(USER), *lacking, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("skipped: no user namespaces here")
        done = self.bootstrapped(":", self.as_user(USER), " ".join(lacking) + " /bin/sh")
        self.assertEqual(done, (0, "here\n", ""))

    def test_another_hosts_ddprun_is_not_run(self):
        """The host has something else by the launcher's name, so the launcher is sent there."""
        folder = os.path.join(self.shared, "bin")
        os.mkdir(folder)
        launcher = os.path.join(folder, "ddprun")
        subprocess.run(["cp", program("ddprun"), launcher], check=True)
        rsh = self.script("planted", f'''
            mv {launcher} {launcher}.away
            printf '#!/bin/sh\\ntouch {self.shared}/planted\\nexit 127\\n' > {launcher}; chmod 755 {launcher}
            chown {OTHER}:{OTHER} {launcher}
            PATH=/usr/bin:/bin; exec /bin/sh -c "$2"''')
        done = subprocess.run([launcher, "--rsh", rsh, "--master-addr=127.0.0.1", "--hosts", "b", "echo", "here"], text=True,
                              capture_output=True, env=self.environment, cwd="/", timeout=support.HANG_GUARD, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "here\n"), done.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.shared, "planted")))

    def squat(self, run_id, how, names):
        holder = subprocess.Popen([*self.as_user(OTHER), "/usr/bin/python3", "-c", SQUATTER, str(USER), run_id, how, str(names)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.stdout.close)
        self.addCleanup(holder.stdin.close)
        self.assertEqual(holder.stdout.readline(), "ready\n")

    def job(self, run_id):
        """Two agents of this machine, of which one hosts."""
        port = free_port()
        agents = [self.launch("--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1",
                              f"--port-range={port}-{port + 10}", f"--rdzv-id={run_id}", "--join-timeout=20", "echo", "hosted",
                              prefix=self.as_user(USER), cwd="/", env={"DDPRUN_AUTH": "off"}) for _ in range(2)]
        return [(agent.wait(), agent.out(), agent.err()) for agent in agents]

    def test_who_has_the_names_of_a_claim_does_not_keep_the_job_from_being_hosted(self):
        for how in ("listens", "is silent"):
            with self.subTest(how):
                run_id = f"{self.marker}-{how}"
                self.squat(run_id, how, 2)
                for code, out, err in self.job(run_id):
                    self.assertEqual((code, out), (0, "hosted"), err)

    def test_who_has_all_of_them_is_named(self):
        self.squat(self.marker, "listens", 16)
        for code, out, err in self.job(self.marker):
            self.assertEqual((code == 0, out), (False, ""))
            self.assertIn(f"other users have all names of the claim: uid {OTHER}", err)


if __name__ == "__main__":
    support.main()
