// What the start of a job decides: who is told what, when it is hopeless, what is tried again.
#include "launcher/features/started_agent.hpp"
#include "launcher/start/remote_shell.hpp"
#include "launcher/start/start_tree.hpp"
#include "launcher/start/starter.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("variables of the machine stay there, the others go along", "[start]") {
    for (const char* name :
         {"SSH_AUTH_SOCK", "DISPLAY", "HOSTNAME", "TMPDIR", "XDG_RUNTIME_DIR", "SLURM_PROCID",
          "SLURM_STEP_ID", "SLURM_STEPID", "OMPI_COMM_WORLD_RANK", "PMI_FD", "LISTEN_FDS"})
        CHECK(is_host_bound(name));
    for (const char* name :
         {"PATH", "SSH", "NCCL_DEBUG", "SLURM_JOB_ID", "SLURM_JOB_END_TIME", "WANDB_API_KEY", "",
          "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "XDG_CONFIG_HOME", "DISPLAYED"})
        CHECK_FALSE(is_host_bound(name));
    const Environment here{{"A", "1"}, {"DISPLAY", ":0"}, {"PATH", "/here"}};
    const Environment there{{"B", "2"}, {"PATH", "/there"}, {"TMPDIR", "/t"}, {"DISPLAY", ":9"}};
    CHECK(carried_environment(here) == Environment{{"A", "1"}, {"PATH", "/here"}});
    CHECK(agent_environment(carried_environment(here), there, {}) ==
          Environment{{"A", "1"}, {"DISPLAY", ":9"}, {"PATH", "/here"}, {"TMPDIR", "/t"}});
    CHECK(agent_environment(carried_environment(here), there, {.all = true}) == there);
    CHECK(clean_environment({{"A", "1"}, {"PATH", "/p"}, {"LC_ALL", "C"}, {"PATHS", "x"}}) ==
          Environment{{"PATH", "/p"}, {"LC_ALL", "C"}});
    const Environment gpus{{"CUDA_VISIBLE_DEVICES", "4,6"}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
                           {"HIP_VISIBLE_DEVICES", "1"},    {"ROCR_VISIBLE_DEVICES", "4,6"},
                           {"ZE_AFFINITY_MASK", "0.1"},     {"GPU_DEVICE_ORDINAL", "2"}};
    CHECK(clean_environment(gpus) == gpus);
}

TEST_CASE("a remote shell's failure names the host, the code, the last words and a remedy", "[start]") {
    const RshEnd refused{Exited{255}, "ssh: connect to host b port 22: Connection refused"};
    CHECK(rsh_failure_text("b", "/usr/bin/ssh", refused) ==
          "b: ssh exit 255: ssh: connect to host b port 22: Connection refused");
    CHECK(rsh_failure_text("b", "ssh", {Exited{1}, ""}) == "b: ssh exit 1");
    CHECK(rsh_failure_text("b", "ssh", {Signaled{9}, "\x1b[31mred"}) == "b: ssh signal 9 (SIGKILL): red");
    CHECK(is_worth_another(refused));
    CHECK_FALSE(is_worth_another({Exited{1}, ""}));
    CHECK_FALSE(is_worth_another({Signaled{9}, ""}));
    for (const char* line :
         {"alice@b: Permission denied (publickey,password).", "Host key verification failed."}) {
        const RshEnd locked{Exited{255}, line};
        CHECK_FALSE(is_worth_another(locked));
        CHECK(rsh_failure_text("b", "ssh", locked).find("BatchMode") != std::string::npos);
        // Said by what ssh has started there.
        CHECK(rsh_failure_text("b", "ssh", {Exited{126}, line}).find("BatchMode") == std::string::npos);
    }
    const RshEnd no_program{Exited{126}, "sh: 1: /opt/ddprun: Permission denied"};
    CHECK(rsh_failure_text("b", "ssh", no_program) ==
          "b: ssh exit 126: sh: 1: /opt/ddprun: Permission denied");
}

TEST_CASE("connections are tried again after a pause that grows, with jitter", "[start]") {
    CHECK(pause_before_next(1, 0) == kFirstConnectPause);
    CHECK(pause_before_next(1, 1) == 2 * kFirstConnectPause);
    CHECK(pause_before_next(2, 0) == 2 * kFirstConnectPause);
    CHECK(pause_before_next(1'000'000, 7) <= 16 * kFirstConnectPause);
}

TEST_CASE("a remote shell gets what it needs to be one, and the host and the line where they belong",
          "[start]") {
    using Words = std::vector<std::string>;
    const auto words = remote_shell({});
    CHECK(words.front() == "ssh");
    CHECK(std::find(words.begin(), words.end(), "BatchMode=yes") != words.end());
    CHECK(std::find(words.begin(), words.end(), "ConnectTimeout=10") != words.end());
    const auto called = [](Words command) {
        return shell_words(remote_shell(std::move(command)), {.target = "h", .line = "l"});
    };
    const Words by_ssh = called({});
    CHECK(Words(by_ssh.end() - 3, by_ssh.end()) == Words{"--", "h", "l"});
    CHECK(called({"blaunch"}) == Words{"blaunch", "h", "l"});
    CHECK(called({"qrsh"}) == Words{"qrsh", "-inherit", "h", "l"});
    CHECK(called({"/opt/qrsh", "-inherit", "-V"}) == Words{"/opt/qrsh", "-inherit", "-V", "h", "l"});
    CHECK(called({"srun", "--quiet"}) == Words{"srun", "--quiet", "--nodes=1", "--ntasks=1", "--overlap",
                                               "--mpi=none", "--cpu-bind=none", "--export=ALL", "--quiet",
                                               "--nodelist=h", "/bin/sh", "-c", "l"});
    CHECK(called({"x", "a{host}b{line}{host}"}) == Words{"x", "ahblh"});
    CHECK(called({"x", "{line}"}) == Words{"x", "l", "h"});
    CHECK(shell_words({"x", "{host}"}, {.target = "{line}", .line = "{host}"}) ==
          Words{"x", "{line}", "{host}"});
    const auto asking = shell_words(remote_shell({"srun"}), {.target = "h", .line = "l", .gpus = 4});
    CHECK(std::find(asking.begin(), asking.end(), "--gpus=4") != asking.end());
    CHECK(rsh_failure_text(
              "h", "srun",
              {Exited{1},
               "srun: error: Unable to create step for job 3: Invalid generic resource (gres) specification"})
              .find("--gpus-per-node") != std::string::npos);
    CHECK(why_no_remote_shell({"/opt/pbs/bin/pbsdsh"})->starts_with("pbsdsh gives "));
    CHECK_FALSE(why_no_remote_shell({"pbsdshell"}));
    CHECK(shell_name({"/usr/bin/srun", "-x"}) == "srun");
    CHECK((is_schedulers({"srun"}) && is_schedulers({"/a/blaunch"}) && !is_schedulers({"ssh"})));
}

TEST_CASE("srun has none of the options that were meant for the user's own steps", "[start]") {
    const Environment given{{"SLURM_JOB_ID", "1"},       {"SLURM_CONF", "/c"},   {"SLURM_CONF_SERVER", "s"},
                            {"SLURM_NTASKS", "9"},       {"SLURM_LABELIO", "1"}, {"SLURM_GPUS", "24"},
                            {"SRUN_CPUS_PER_TASK", "2"}, {"PATH", "/p"}};
    CHECK(
        shell_environment(remote_shell({"/usr/bin/srun"}), given) ==
        Environment{{"PATH", "/p"}, {"SLURM_CONF", "/c"}, {"SLURM_CONF_SERVER", "s"}, {"SLURM_JOB_ID", "1"}});
    CHECK(shell_environment(remote_shell({}), given) == given);
}

TEST_CASE("which GPUs an agent sees is its host's own word, where the scheduler has a step there",
          "[start]") {
    const Environment carried{{"CUDA_VISIBLE_DEVICES", "0,1"}, {"HIP_VISIBLE_DEVICES", "0"}};
    const Environment own{{"CUDA_VISIBLE_DEVICES", "4"}};
    CHECK(agent_environment(carried, own, {}) == carried);
    CHECK(agent_environment(carried, own, {.gpus = true}) ==
          Environment{{"CUDA_VISIBLE_DEVICES", "4"}, {"HIP_VISIBLE_DEVICES", "0"}});
}

TEST_CASE("the words of a handshake are found in whatever a shell says", "[start]") {
    Handshake hands;
    CHECK(hands.push("Welcome\nto my") == Handshake::Word::none);
    CHECK(hands.push(" hostddprun-relay ne") == Handshake::Word::none);
    CHECK(hands.push("ed\r\n") == Handshake::Word::need);
    CHECK(hands.push("ddprun-relay have\nframes") == Handshake::Word::have);
    CHECK(hands.take_rest() == "frames");
    Handshake loud;
    CHECK(loud.push(std::string(kMaxNoise, 'x')) == Handshake::Word::none);
    CHECK(loud.push("y") == Handshake::Word::too_much);
}

TEST_CASE("a shell's word is quoted whatever is in it", "[start]") {
    CHECK(shell_quoted("a b") == "'a b'");
    CHECK(shell_quoted("it's") == R"('it'\''s')");
    const std::string line = bootstrap_line({"/a'b/ddprun", "1.0-ff", 77, true});
    CHECK(line.starts_with("exec /bin/sh -c '"));
    CHECK(line.find("head -c 77") != std::string::npos);
    CHECK(bootstrap_line({"/ddprun", "1.0-ff", 77, false}).find("head") == std::string::npos);
    CHECK(bootstrap_line({"/ddprun", "1.0-ff", 77, false, {0, 7}}).find("0|$u|0|7)k=;;") !=
          std::string::npos);
    // A shell of csh's kind would take one for a word of its history.
    CHECK(line.find('!') == std::string::npos);
    const std::string identity = build_identity();
    CHECK(identity.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-") == std::string::npos);
    CHECK(identity.size() > std::string(DDPRUN_VERSION).size() + 8);
    CHECK(identity == build_identity());
}

TEST_CASE("what all agents say alike stands once", "[start]") {
    EchoFilter echoes;
    CHECK(echoes.fresh(1, "ddprun: a\nworker\nddprun: b") == "ddprun: a\nworker\nddprun: b");
    CHECK(echoes.fresh(0, "ddprun: a\nworker\nddprun: c\n") == "worker\nddprun: c\n");
    // One that says it again means it.
    CHECK(echoes.fresh(1, "ddprun: a\n") == "ddprun: a\n");
    for (std::size_t i = 0; i <= kMaxEchoes; ++i) echoes.fresh(1, "ddprun: " + std::to_string(i) + "\n");
    CHECK(echoes.fresh(0, "ddprun: 0\n") == "ddprun: 0\n");
}

TEST_CASE("what an agent says behind its host's name stands once, too", "[start]") {
    EchoFilter echoes;
    CHECK(echoes.fresh(1, "ddprun: a\nworker\nddprun:   of it\n", "b") ==
          "ddprun: b: a\nworker\nddprun:   of it\n");
    CHECK(echoes.fresh(2, "ddprun: a\nddprun: c\n", "c") == "ddprun: c: c\n");
}

TEST_CASE("an agent that has lost its line ends where nobody else would tell it", "[start]") {
    CHECK(ends_with_line({.is_node_0 = true, .has_run = true}));
    CHECK(ends_with_line({.has_run = false}));
    CHECK(ends_with_line({.has_run = true, .is_elastic = true}));
    CHECK_FALSE(ends_with_line({.has_run = true}));
}

TEST_CASE("a host that cannot be started makes a job of fixed size hopeless", "[start]") {
    StartLedger ledger({.nodes = 3, .least = 3});
    CHECK_FALSE(ledger.is_hopeless());
    CHECK(ledger.learn(HostFailed{{1}, "b: no"}) == "b: no");
    CHECK(ledger.is_hopeless());
    CHECK(ledger.exit_code() == 71);
    CHECK(ledger.why_not_begun() == "1 of 3 hosts could not be started, so the job is not run");
    CHECK_FALSE(ledger.learn(HostFailed{{1, -1, 3}, "again"}));
}

TEST_CASE("one of MIN:MAX nodes may be missing, but not node 0", "[start]") {
    StartLedger ledger({.nodes = 3, .least = 2, .may_outlive_0 = true});
    ledger.learn(HostFailed{{2}, "c: no"});
    CHECK_FALSE(ledger.is_hopeless());
    CHECK_FALSE(ledger.why_not_begun());
    ledger.learn(AgentRuns{0});
    ledger.learn(AgentEnded{0, 0});
    CHECK_FALSE(ledger.awaits_stragglers());
    CHECK(ledger.exit_code() == 0);
    StartLedger headless({.nodes = 3, .least = 2, .may_outlive_0 = true});
    headless.learn(HostFailed{{0}, "a: no"});
    CHECK(headless.is_hopeless());
}

TEST_CASE("a start's exit code is node 0's, or that of who can tell", "[start]") {
    StartLedger early({.nodes = 2, .least = 2});
    early.learn(AgentEnded{1, 2});
    CHECK(early.is_hopeless());
    early.learn(AgentEnded{0, 143});
    CHECK(early.exit_code() == 2);
    CHECK_FALSE(early.why_not_begun());

    StartLedger usual({.nodes = 2, .least = 2});
    usual.learn(AgentRuns{1});
    usual.learn(AgentEnded{1, 9});
    usual.learn(AgentEnded{0, 7});
    CHECK(usual.exit_code() == 7);
    CHECK(usual.awaits_stragglers());

    // Its line broke: nobody heard how it ended.
    StartLedger cut({.nodes = 3, .least = 3});
    cut.learn(AgentRuns{0});
    CHECK(cut.learn(HostFailed{{0}, "a: ssh exit 255", true}) ==
          "a: ssh exit 255; what its agent says is not shown any more");
    CHECK_FALSE(cut.is_hopeless());
    CHECK(cut.exit_code() == 71);
    cut.learn(AgentEnded{2, 143});
    CHECK(cut.exit_code() == 143);

    // Killed, and the job went on without it.
    StartLedger outlived({.nodes = 2, .least = 1, .may_outlive_0 = true});
    outlived.learn(AgentRuns{0});
    outlived.learn(AgentEnded{0, 137, true});
    outlived.learn(AgentEnded{1, 0});
    CHECK(outlived.exit_code() == 0);
}

TEST_CASE("the relay of a branch speaks for its own nodes, in numbers that there are", "[start]") {
    const std::vector<StartNode> branch{{.rank = 2}, {.rank = 4}};
    for (const int rank : {2, 4})
        for (const UpMessage& message :
             std::vector<UpMessage>{AgentOutput{rank}, AgentRuns{rank}, AgentEnded{rank, 255},
                                    HostFailed{{rank, 4}}, HostFailed{}})
            CHECK(speaks_for_itself(message, branch));
    for (const int rank : {-1, 0, 1, 3, 5})
        for (const UpMessage& message :
             std::vector<UpMessage>{AgentOutput{rank}, AgentRuns{rank}, AgentEnded{rank},
                                    HostFailed{{2, rank}}, PortTaken{29500}})
            CHECK_FALSE(speaks_for_itself(message, branch));
    for (const int code : {-1, 256}) CHECK_FALSE(speaks_for_itself(AgentEnded{2, code}, branch));
    CHECK(speaks_for_itself(PortTaken{29500}, {{.rank = 0}}));
    for (const int port : {-1, 0, 65536}) CHECK_FALSE(speaks_for_itself(PortTaken{port}, {{.rank = 0}}));
}

TEST_CASE("a job has succeeded if node 0 says so, where nobody goes on without it", "[start]") {
    StartLedger unbegun({.nodes = 2, .least = 2});
    unbegun.learn(AgentEnded{1, 0});
    CHECK(unbegun.exit_code() == 71);
    unbegun.learn(AgentEnded{0, 0});
    CHECK(unbegun.exit_code() == 0);
    StartLedger cut({.nodes = 2, .least = 2});
    cut.learn(AgentRuns{1});
    cut.learn(HostFailed{{0}, "a: ssh exit 255", true});
    cut.learn(AgentEnded{1, 0});
    CHECK(cut.exit_code() == 71);
}

}  // namespace ddprun
