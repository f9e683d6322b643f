"""Nodes whose host is elected in an etcd that speaks TLS (--rdzv-conf protocol=https), with a real one."""

import http.server
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import support
from etcd_test import PREEMPTED, PREFIX, UNAVAILABLE, Etcd, EtcdTest
from support import free_port, worker

USAGE = 2
TRUSTED_BY_SYSTEMS = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
HERE = "IP:127.0.0.1,DNS:localhost"


class Certificates:
    """Authorities and what they have signed, in files of a folder: NAME.pem and NAME.key."""

    def __init__(self, folder):
        self.folder = folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def openssl(self, *words):
        subprocess.run(["openssl", *map(str, words)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                       cwd=self.folder)

    def make_authority(self, name):
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                     "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}", "-days", 9)

    def sign(self, name, authority="ca", hosts=HERE, days=9):
        with open(self.path("extensions"), "w", encoding="ascii") as file:
            file.write(f"subjectAltName={hosts}\n")
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                     "-keyout", f"{name}.key", "-out", "request", "-subj", f"/CN={name}")
        self.openssl("x509", "-req", "-in", "request", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key",
                     "-CAcreateserial", "-out", f"{name}.pem", "-days", days, "-extfile", "extensions")

    def conf(self, ca="ca", cert=None):
        """What an agent is told of them."""
        words = f"protocol=https,cacert={self.path(ca)}.pem"
        return words if cert is None else f"{words},cert={self.path(cert)}.pem,key={self.path(cert)}.key"


class TlsEtcd(Etcd):
    scheme = "https"

    def __init__(self, certificates, cert="server", wants_certificate=False):
        self.certificates, self.wants_certificate = certificates, wants_certificate
        self.more_words = ["--cert-file", certificates.path(f"{cert}.pem"), "--key-file", certificates.path(f"{cert}.key")]
        if wants_certificate:
            self.more_words += ["--client-cert-auth", "--trusted-ca-file", certificates.path("ca.pem")]
        super().__init__(certificates.folder)

    def start(self):
        # Which certificate is shown is for ddprun to judge: the server may show a wrong one.
        self.trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.trust.check_hostname, self.trust.verify_mode = False, ssl.CERT_NONE
        if self.wants_certificate:
            self.certificates.sign("tester")
            self.trust.load_cert_chain(self.certificates.path("tester.pem"), self.certificates.path("tester.key"))
        super().start()


class EtcdTlsTest(EtcdTest):
    def setUp(self):
        support.EndToEndTest.setUp(self)
        self.folder = tempfile.TemporaryDirectory()
        self.certificates = Certificates(self.folder.name)
        for authority in ("ca", "other"):
            self.certificates.make_authority(authority)
        self.certificates.sign("server")
        self.etcd = None

    def tearDown(self):
        support.EndToEndTest.tearDown(self)
        if self.etcd:
            self.etcd.stop()
        self.folder.cleanup()

    def start_etcd(self, **options):
        self.etcd = TlsEtcd(self.certificates, **options)

    def agent(self, conf, nnodes=2, words=None, endpoint=None, flags=(), **options):
        return self.launch("-v", "--rdzv-backend=etcd", f"--rdzv-endpoint={endpoint or self.etcd.endpoint}",
                           "--rdzv-id=job", f"--rdzv-conf=etcd_prefix={PREFIX},last_call_timeout=0,{conf}",
                           "--nnodes", nnodes, "--grace", 10, *flags, *(words or worker("exit", 0)), **options)

    def assert_refused(self, conf, why, endpoint=None, **options):
        """At once, in a line that names the endpoint."""
        endpoint = endpoint or self.etcd.endpoint
        agent = self.agent(conf, endpoint=endpoint, flags=("--join-timeout", 30), **options)
        self.assertEqual(agent.wait(), UNAVAILABLE, agent.err())
        self.assertRegex(agent.err() + "\n", re.escape(f"ddprun: etcd refuses to serve the rendezvous (--rdzv-endpoint {endpoint}): "
                                                f"{endpoint} ") + why)

    def assert_in_vain(self, conf, cause, endpoint=None):
        """Until --join-timeout is over."""
        endpoint = endpoint or self.etcd.endpoint
        agent = self.agent(conf, endpoint=endpoint, flags=("--join-timeout", 2, "--heartbeat", 1))
        self.assertEqual(agent.wait(), UNAVAILABLE, agent.err())
        self.assertRegex(agent.err() + "\n", re.escape(f"ddprun: no host was found in etcd (--rdzv-endpoint {endpoint}) within 2 s: "
                                                f"{endpoint} ") + cause)


class Election(EtcdTlsTest):
    def assert_elects(self, conf, **options):
        agents = [self.agent(conf, words=worker("print-env"), **options) for _ in range(2)]
        for agent in agents:
            self.assertEqual(agent.wait(), 0, agent.err())
        self.assertEqual({line for agent in agents for line in agent.out().splitlines() if line.startswith("RANK=")},
                         {"RANK=0", "RANK=1"})
        self.assert_nothing_left()

    def test_agents_meet_by_the_servers_certificate_alone(self):
        self.start_etcd()
        self.assert_elects(self.certificates.conf())
        self.assert_elects(self.certificates.conf(), endpoint=f"localhost:{self.etcd.port}")
        # What an agent shows although nobody asks for it is no trouble.
        self.certificates.sign("client")
        self.assert_elects(self.certificates.conf(cert="client"))
        # Its own certificate may be all that is trusted, by the variable of OpenSSL, too.
        self.assert_elects(self.certificates.conf(ca="server"))
        self.assert_elects("protocol=https", env={"SSL_CERT_FILE": self.certificates.path("ca.pem")})

    def test_agents_meet_that_show_certificates(self):
        self.certificates.sign("client")
        self.start_etcd(wants_certificate=True)
        self.assert_elects(self.certificates.conf(cert="client"))
        # As torchrun's other backend names them; and certificate and key in one file.
        both = self.certificates.path("both.pem")
        with open(both, "wb") as file:
            for part in ("client.key", "client.pem"):
                with open(self.certificates.path(part), "rb") as source:
                    shutil.copyfileobj(source, file)
        self.assert_elects(f"protocol=HTTPS,ca_cert={self.certificates.path('ca.pem')},ssl_cert={both}")

    def test_openssl_is_loaded_only_where_it_is_wanted(self):
        for scheme, is_loaded in (("http", False), ("https", True)):
            agent = self.agent(self.certificates.conf().replace("https", scheme), endpoint=f"127.0.0.1:{free_port()}")
            agent.wait_for_line("asks etcd at")
            with open(f"/proc/{agent.pid}/maps", encoding="ascii") as maps:
                self.assertEqual("libssl.so" in maps.read(), is_loaded, scheme)
            agent.send(signal.SIGTERM)
            self.assertEqual(agent.wait(), 128 + signal.SIGTERM)

    def test_what_openssl_is_told_on_this_machine_is_not_for_us(self):
        self.start_etcd()
        settings = self.certificates.path("openssl.cnf")
        with open(settings, "w", encoding="ascii") as file:
            file.write("openssl_conf = all\n[all]\nssl_conf = tls\n[tls]\nsystem_default = old\n"
                       "[old]\nMaxProtocol = TLSv1.1\n")
        self.assert_elects(self.certificates.conf(), env={"OPENSSL_CONF": settings})

    def test_a_host_keeps_its_key_while_all_certificates_are_renewed(self):
        self.certificates.sign("client")
        self.start_etcd(wants_certificate=True)
        agent = self.agent(self.certificates.conf(cert="client"), nnodes="1:2", words=worker("exit-zero-on-term"),
                           flags=("--heartbeat", 2))
        agent.wait_for_line("^ready$")
        self.assertEqual(self.host_of(), agent.pid)
        self.etcd.stop()
        # Another authority, which the first certificates are nothing to.
        self.certificates.make_authority("ca")
        for name in ("server", "client"):
            self.certificates.sign(name)
        self.assert_writes_its_key_again(agent)
        # One that cannot be used, for a moment, is passed over.
        self.etcd.stop()
        with open(self.certificates.path("client.pem"), "w", encoding="ascii") as file:
            file.write("half a certif")
        self.assert_writes_its_key_again(agent)
        agent.send(signal.SIGTERM)
        self.assertEqual(agent.wait(), PREEMPTED)
        self.assert_nothing_left()

    def assert_writes_its_key_again(self, agent):
        shutil.rmtree(os.path.join(self.folder.name, "data"))
        self.etcd.start()
        self.assertEqual(self.host_of(), agent.pid)


class Refused(EtcdTlsTest):
    def test_a_server_that_is_not_trusted(self):
        self.start_etcd()
        other = self.certificates.path("other.pem")
        self.assert_refused(self.certificates.conf(ca="other"),
                            rf"shows a certificate that --rdzv-conf cacert {other} does not vouch for \(.+\); "
                            "name the file of the authority that signed it\n")
        if not any(map(os.path.exists, TRUSTED_BY_SYSTEMS)):
            return
        self.assert_refused("protocol=https", r"shows a certificate that this machine does not trust \(.+\); "
                                              "--rdzv-conf cacert=FILE names the authority that signed it\n",
                            env={"SSL_CERT_FILE": ""})

    def test_a_server_of_another_name(self):
        why = "shows a certificate of another name; give --rdzv-endpoint one that stands in it\n"
        for hosts, name in (("IP:127.0.0.1", "localhost"), ("DNS:localhost,IP:127.0.0.2", "127.0.0.1")):
            self.certificates.sign("server", hosts=hosts)
            self.start_etcd()
            self.assert_refused(self.certificates.conf(), why, endpoint=f"{name}:{self.etcd.port}")
            self.etcd.stop()

    def test_a_server_whose_certificate_has_expired(self):
        self.certificates.sign("server", days=-1)
        self.start_etcd()
        self.assert_refused(self.certificates.conf(),
                            "shows a certificate that has expired; renew it, or set this machine's clock\n")

    def test_a_server_that_wants_to_see_a_certificate(self):
        self.certificates.sign("client")
        self.certificates.sign("stranger", authority="other")
        self.start_etcd(wants_certificate=True)
        self.assert_refused(self.certificates.conf(),
                            r"wants this agent to show a certificate \(.+\); --rdzv-conf cert=FILE,key=FILE names it\n")
        stranger = self.certificates.path("stranger.pem")
        self.assert_refused(self.certificates.conf(cert="stranger"),
                            rf"does not accept --rdzv-conf cert {stranger} \(.+\); name one that is signed by whom it trusts\n")

    def test_a_server_that_speaks_something_else(self):
        server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
        server.RequestHandlerClass.log_message = lambda *_: None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.assert_refused(self.certificates.conf(), "speaks no TLS; --rdzv-conf protocol=http asks it without\n",
                            endpoint=f"127.0.0.1:{server.server_port}")


    def test_a_server_of_an_older_tls(self):
        server = subprocess.Popen(["openssl", "s_server", "-accept", "127.0.0.1:0", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0",
                                   "-cert", "server.pem", "-key", "server.key"], cwd=self.folder.name,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        port = next(line.rsplit(":", 1)[1].strip() for line in server.stdout if line.startswith("ACCEPT"))
        self.assert_refused(self.certificates.conf(), r"speaks no TLS of version 1.2 or newer \(.+\)\n",
                            endpoint=f"127.0.0.1:{port}")


class InVain(EtcdTlsTest):
    def test_an_etcd_without_tls(self):
        self.etcd = Etcd(self.folder.name)
        self.assert_in_vain(self.certificates.conf(),
                            r"ends the handshake of TLS \(.+\); if it speaks none, --rdzv-conf protocol=http")

    def test_an_etcd_with_tls_that_is_asked_without(self):
        self.start_etcd()
        self.assert_in_vain("protocol=http",
                            "gives no answer of etcd's: .+; if it wants TLS, --rdzv-conf protocol=https")

    def test_a_server_that_is_silent_in_the_handshake(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            endpoint = f"127.0.0.1:{silent.getsockname()[1]}"
            self.assert_in_vain(self.certificates.conf(), "does not answer", endpoint=endpoint)
            agent = self.agent(self.certificates.conf(), endpoint=endpoint)
            agent.wait_for_line("asks etcd at")
            agent.wait_until_idle()
            agent.send(signal.SIGTERM)
            self.assertEqual(agent.wait(), 128 + signal.SIGTERM)


class BadFiles(EtcdTlsTest):
    def assert_usage_error(self, conf, why, **options):
        agent = self.agent(conf, endpoint=f"127.0.0.1:{free_port()}", **options)
        self.assertEqual(agent.wait(), USAGE, agent.err())
        self.assertRegex(agent.err() + "\n", rf"^ddprun: {why}\n$")

    def test_files_that_cannot_be_used_are_named_at_the_start(self):
        path, conf = self.certificates.path, self.certificates.conf
        self.certificates.sign("client")
        with open(path("text"), "w", encoding="ascii") as file:
            file.write("no certificate\n")
        self.certificates.openssl("ec", "-in", "client.key", "-aes128", "-passout", "pass:x", "-out", "locked.key")
        remedy = "; name a file in PEM that this user can read"
        cert = f"{conf()},cert={path('client.pem')}"
        for words, why in (
                (f"protocol=https,cacert={path('none')}",
                 f"--rdzv-conf cacert {path('none')}: cannot be read: No such file or directory{remedy}"),
                (f"protocol=https,cacert={self.folder.name}",
                 f"--rdzv-conf cacert {self.folder.name}: is no regular file{remedy}"),
                (f"protocol=https,ca_cert={path('text')}",
                 rf"--rdzv-conf ca_cert {path('text')}: holds no certificate in PEM \(.+\); name the file of the authority "
                 "that signed etcd's"),
                (f"{conf()},cert={path('none')},key={path('client.key')}",
                 f"--rdzv-conf cert {path('none')}: cannot be read: No such file or directory{remedy}"),
                (f"{conf()},cert={path('client.key')},key={path('client.key')}",
                 rf"--rdzv-conf cert {path('client.key')}: holds no certificate in PEM \(.+\); name this agent's own"),
                (f"{cert},key={path('none')}",
                 f"--rdzv-conf key {path('none')}: cannot be read: No such file or directory{remedy}"),
                (cert, f"--rdzv-conf cert {path('client.pem')}: holds no private key; key=FILE names it"),
                (f"{cert},ssl_cert_key={path('client.pem')}",
                 f"--rdzv-conf ssl_cert_key {path('client.pem')}: holds no private key in PEM; name that of the certificate"),
                (f"{cert},key={path('server.key')}",
                 f"--rdzv-conf key {path('server.key')}: is not the key of --rdzv-conf cert {path('client.pem')}; "
                 "name the two that were made together"),
                (f"{cert},key={path('locked.key')}",
                 f"--rdzv-conf key {path('locked.key')}: is encrypted, and nobody can be asked for its password; "
                 "name one that is not")):
            with self.subTest(words):
                self.assert_usage_error(words, why)

    def test_without_an_openssl_https_is_refused_and_http_is_not(self):
        # A machine that has none is one whose first library of that name is unusable.
        with open(self.certificates.path("libssl.so.3"), "wb"):
            pass
        env = {"LD_LIBRARY_PATH": self.folder.name}
        self.assert_usage_error(self.certificates.conf(),
                                r"--rdzv-conf protocol https: TLS needs the system's OpenSSL 3 \(Debian and Ubuntu: package libssl3; "
                                r"Fedora and RHEL: openssl-libs\): .*libssl\.so\.3: .+; protocol=http asks a listener without it",
                                env=env)
        self.etcd = Etcd(self.folder.name)
        self.assertEqual(self.agent("protocol=http", nnodes=1, env=env).wait(), 0)

    def test_one_node_needs_none_of_them(self):
        self.assertEqual(self.agent("protocol=https,cacert=none", nnodes=1, endpoint="127.0.0.1:1").wait(), 0)


if __name__ == "__main__":
    for program, package in (("etcd", "etcd-server"), ("openssl", "openssl")):
        if shutil.which(program) is None:
            print(f"skipped: there is no {program} (Debian's {package})")
            sys.exit(77)
    support.main()
