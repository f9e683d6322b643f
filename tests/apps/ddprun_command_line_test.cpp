#include "apps/ddprun/options/command_line.hpp"
#include "apps/ddprun/options/job_options.hpp"

#include <cctype>
#include <functional>
#include <set>

#include "apps/cli/option_values.hpp"
#include "apps/ddprun/modes/doctor_node.hpp"
#include "apps/ddprun/plan/launch_plan.hpp"
#include "launcher/features/time_limit.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

Said parsed(const Words& words, const Environment& environment = {}) {
    return parse_command_line(words, environment);
}

std::string refusal_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const UsageError& error) {
        return error.what();
    }
    return "accepted";
}

std::string parse_refusal(const Words& words) {
    return refusal_of([&] { parsed(words); });
}

Words joined(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

// One line for each value that the words may change.
Words summary(const Said& line) {
    Words values = {"nnodes " + std::to_string(line.nnodes) + (line.nodes_said ? " said" : ""),
                    "node_rank " + std::to_string(line.node_rank),
                    "nproc " + workers_text(line.nproc_per_node),
                    "master " + line.master_addr.value_or("-") + " " +
                        (line.master_port ? std::to_string(*line.master_port) : "-"),
                    "net " + line.networks,
                    "id " + line.run_id,
                    "role " + line.role,
                    "times " + std::to_string(line.join_timeout.count()) + " " +
                        std::to_string(line.grace_period.count()),
                    "restarts " + std::to_string(line.restarts.max_restarts),
                    "progress " + line.progress_file,
                    "signals " + std::to_string(line.terminating_signals.size()) + " " +
                        std::to_string(line.unknown_signals.size()) + " " +
                        std::to_string(line.forwarded_signals.size()),
                    "wraps " + std::to_string(line.wraps.size()),
                    "tty " + (line.tty_rank ? std::to_string(*line.tty_rank) : "-"),
                    "result " + line.result_file,
                    "bind " + std::to_string(static_cast<int>(line.gpu_bind))};
    return joined(std::move(values), line.program);
}

NodeFacts facts_with(const Environment& environment) {
    NodeFacts facts;
    facts.environment = environment;
    facts.hardware.usable_cpus = 8;
    return facts;
}

LaunchOptions launched(const Words& words, const NodeFacts& facts) {
    return resolve_launch(JobPlan(parsed(words)), facts);
}

}  // namespace

TEST_CASE("command line: words reach their values") {
    const Said line = parsed({"--nnodes=2",
                              "--node_rank",
                              "1",
                              "--nproc-per-node=3",
                              "--master-addr",
                              "10.0.0.1",
                              "--master_port=1234",
                              "--rdzv-id",
                              "job",
                              "--rdzv-conf=join_timeout=7",
                              "--role=trainer",
                              "--max-restarts",
                              "4",
                              "--grace=5",
                              "--net",
                              "10.0.0.0/8",
                              "-r3",
                              "-t",
                              "1",
                              "-m",
                              "pkg.train",
                              "--nnodes",
                              "-h"});
    CHECK(line.nnodes == 2);
    CHECK(line.nodes_said);
    CHECK(line.node_rank == 1);
    CHECK(line.nproc_per_node == WorkerCount(3));
    CHECK(line.master_addr == "10.0.0.1");
    CHECK(line.master_port == 1234);
    CHECK(line.run_id == "job");
    CHECK(line.join_timeout == 7s);
    CHECK(line.role == "trainer");
    CHECK(line.restarts.max_restarts == 4);
    CHECK(line.grace_period == 5s);
    CHECK(line.networks == "10.0.0.0/8");
    CHECK(line.module);
    CHECK(line.program == Words{"pkg.train", "--nnodes", "-h"});
}

TEST_CASE("command line: nodes are said by --nnodes or --standalone, or by their variables") {
    CHECK_FALSE(parsed({"p"}).nodes_said);
    CHECK_FALSE(parsed({"--nnodes=", "p"}).nodes_said);
    CHECK_FALSE(parsed({"--master-addr=a", "--nproc-per-node=2", "p"}).nodes_said);
    CHECK(parsed({"--nnodes=1", "p"}).nodes_said);
    CHECK(parsed({"--nnodes=1:1", "p"}).nodes_said);
    CHECK(parsed({"--standalone", "p"}).nodes_said);
    CHECK(parsed({"p"}, {{"PET_NNODES", "1"}}).nodes_said);
    CHECK_FALSE(parsed({"p"}, {{"PET_NNODES", ""}}).nodes_said);
    CHECK(parsed({"p"}, {{"PET_STANDALONE", "1"}}).nodes_said);
}

TEST_CASE("command line: an empty value is as good as none, and takes nothing from the next word") {
    const Words rest = {"--nproc-per-node=2", "train.py", "-x"};
    const Words expected = summary(parsed(rest));
    for (const char* name : {"--nnodes",
                             "--node-rank",
                             "--nproc-per-node",
                             "--master-addr",
                             "--master-port",
                             "--net",
                             "--port-range",
                             "--rdzv-backend",
                             "--rdzv-endpoint",
                             "--rdzv-id",
                             "--rdzv-conf",
                             "--role",
                             "--gpu-bind",
                             "--shutdown-timeout",
                             "--grace",
                             "--signals-to-handle",
                             "--forward",
                             "--time-limit",
                             "--warn-before",
                             "--exit-wait",
                             "--hang-timeout",
                             "--hang-start-timeout",
                             "--max-restarts",
                             "--restart-on",
                             "--no-restart-on",
                             "--backoff",
                             "--min-uptime",
                             "--progress-file",
                             "--monitor-interval",
                             "--redirects",
                             "--tee",
                             "--log-dir",
                             "--log-max",
                             "--show",
                             "--local-ranks-filter",
                             "--log-line-prefix-template",
                             "--duplicate-stdout-filters",
                             "--duplicate-stderr-filters",
                             "--result-file",
                             "--tty",
                             "--wrap",
                             "--master_addr"}) {
        CAPTURE(name);
        CHECK(summary(parsed(joined({std::string(name) + "="}, rest))) == expected);
        CHECK(summary(parsed(joined({name, ""}, rest))) == expected);
    }
    for (const char* name : {"-r", "-t"}) CHECK(summary(parsed(joined({name, ""}, rest))) == expected);
    CHECK(parsed({"--prefix=", "--nproc-per-node=2", "p"}).nproc_per_node == WorkerCount(2));
    // The launch line of a script whose variables are not set.
    const Said line =
        parsed({"--nnodes=", "--node-rank=", "--master-addr=", "--master-port=", "--nproc-per-node=4", "p"});
    CHECK(line.nproc_per_node == WorkerCount(4));
    CHECK_FALSE(line.master_addr);
}

TEST_CASE("command line: an empty value leaves the variable's, and an empty variable the default") {
    const Environment given = {{"PET_NPROC_PER_NODE", "3"}};
    CHECK(parsed({"--nproc-per-node=", "p"}, given).nproc_per_node == WorkerCount(3));
    CHECK(parsed({"--nproc-per-node=2", "p"}, given).nproc_per_node == WorkerCount(2));
    const Said line = parsed({"p"}, {{"PET_NPROC_PER_NODE", ""},
                                     {"PET_MASTER_ADDR", ""},
                                     {"PET_MODULE", ""},
                                     {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", ""}});
    CHECK(line.nproc_per_node == WorkerCount(1));
    CHECK_FALSE(line.master_addr);
    CHECK_FALSE(line.module);
    CHECK(line.grace_period == 30s);
}

TEST_CASE("command line: a value that was left out is missed") {
    const struct {
        Words words;
        std::string message;
    } rows[] = {
        {{"--nnodes"}, "--nnodes: needs a value"},
        {{"-r"}, "-r: needs a value"},
        {{"--role", "--nproc-per-node=2", "train.py"},
         "--role: needs a value, but --nproc-per-node=2 follows; write --role=VALUE for one that begins so"},
        {{"--rdzv_conf", "--nproc_per_node", "2", "p"},
         "--rdzv_conf: needs a value, but --nproc_per_node follows; write --rdzv_conf=VALUE for one that "
         "begins so"},
        {{"--master-addr", "--", "p"},
         "--master-addr: needs a value, but -- follows; write --master-addr=VALUE for one that begins so"},
        {{"-r", "-t", "3", "p"}, "-r: needs a value, but -t follows; write -rVALUE for one that begins so"},
    };
    for (const auto& row : rows) CHECK(parse_refusal(row.words) == row.message);
    CHECK(parsed({"--role=--nproc-per-node=2", "p"}).role == "--nproc-per-node=2");
    CHECK(parsed({"--role", "-1", "p"}).role == "-1");
    CHECK(parsed({"--role", "--unknown", "p"}).role == "--unknown");
}

TEST_CASE("command line: one -- is dropped, before the program or directly behind it") {
    const struct {
        Words words, program;
    } rows[] = {
        {{"s.py", "--", "--depth=26"}, {"s.py", "--depth=26"}},
        {{"-m", "mod", "--", "--depth=26"}, {"mod", "--depth=26"}},
        {{"-m", "--", "mod", "x"}, {"mod", "x"}},
        {{"--", "s.py", "x"}, {"s.py", "x"}},
        {{"--", "s.py", "--", "x"}, {"s.py", "--", "x"}},
        {{"s.py", "--", "--", "x"}, {"s.py", "--", "x"}},
        {{"s.py", "a", "--", "b"}, {"s.py", "a", "--", "b"}},
        {{"s.py", "--"}, {"s.py"}},
        {{"--no-python", "./train", "--", "-x"}, {"./train", "-x"}},
        {{"--nproc-per-node", "2", "train", "--", "-x", "--"}, {"train", "-x", "--"}},
        {{"--", "--", "x"}, {"--", "x"}},
        {{"s.py", "", "--"}, {"s.py", "", "--"}},
    };
    for (const auto& row : rows) {
        CAPTURE(row.words);
        CHECK(parsed(row.words).program == row.program);
    }
    CHECK(parse_refusal({"--"}) == "no program given; usage: ddprun [OPTIONS] PROGRAM [ARGUMENTS…]");
    CHECK(parse_refusal({"--nnodes=1", "--"}) == parse_refusal({"--"}));
}

TEST_CASE("command line: times that are none") {
    const std::string limit = "must be a duration longer than 0, like 90s or 2h";
    const std::string warn = "must be S or S:SIGNAL like 120s:USR1, S longer than 0";
    const std::string wait = "must be S or S:kill, like 30s:kill";
    const struct {
        std::string word, message;
    } rows[] = {
        {"--time-limit=0s", "--time-limit 0s: " + limit},
        {"--time-limit=-5", "--time-limit -5: " + limit},
        {"--time-limit=2w", "--time-limit 2w: " + limit},
        {"--warn-before=0", "--warn-before 0: " + warn},
        {"--warn-before=:USR1", "--warn-before :USR1: " + warn},
        {"--warn-before=soon", "--warn-before soon: " + warn},
        {"--warn-before=60:", "--warn-before 60:: no such signal"},
        {"--warn-before=60:USR9", "--warn-before 60:USR9: no such signal"},
        {"--warn-before=60:KILL", "--warn-before 60:KILL: this signal cannot be caught"},
        {"--warn-before=60:STOP", "--warn-before 60:STOP: this signal cannot be caught"},
        {"--exit-wait=-1", "--exit-wait -1: " + wait},
        {"--exit-wait=:kill", "--exit-wait :kill: " + wait},
        {"--exit-wait=30:", "--exit-wait 30:: " + wait},
        {"--exit-wait=30:kill:", "--exit-wait 30:kill:: " + wait},
    };
    for (const auto& row : rows) CHECK(parse_refusal({row.word, "p"}) == row.message);
    CHECK(parsed({"--exit-wait=0", "p"}).exit_wait->wait == 0s);
    CHECK(parsed({"--time-limit=2d", "p"}).features.of<TimeLimitOptions>().limit == 48h);
    CHECK(parsed({"--warn-before=2m:sigusr2", "p"}).features.of<TimeLimitOptions>().warn_before == 2min);
}

TEST_CASE("launch: with c10d the port is torchrun's, but a free one for a single node unless it is said") {
    const auto port = [](const std::string& nnodes, const std::string& endpoint) {
        return launched({"--rdzv-backend=c10d", nnodes, endpoint, "p"}, facts_with({})).master.port;
    };
    CHECK(port("--nnodes=2", "--rdzv-endpoint=h") == 29400);
    CHECK(port("--nnodes=2", "--rdzv-endpoint=h:7") == 7);
    CHECK(port("--nnodes=1", "--rdzv-endpoint=h") == 0);
    CHECK(port("--nnodes=1", "--rdzv-endpoint=h:29400") == 29400);
}

TEST_CASE("launch: a warning needs a limit, that of the options or of the scheduler") {
    const auto with_end = [](const Words& words, const std::string& end) {
        return launched(words, facts_with({{"SLURM_JOB_END_TIME", end}}));
    };
    const std::string refused =
        "--warn-before 60: no limit is known; give --time-limit, or run where Slurm sets "
        "SLURM_JOB_END_TIME";
    CHECK(refusal_of([] { launched({"--warn-before=60", "p"}, facts_with({})); }) == refused);
    CHECK(refusal_of([&] { with_end({"--warn-before=60", "p"}, ""); }) == refused);
    for (const char* bad : {"x", "0", "-1", "17e8", "100000000001"}) {
        CHECK(refusal_of([&] {
                  with_end({"--warn-before=60", "--time-limit=90", "p"}, bad);
              }) == std::string("--warn-before 60: SLURM_JOB_END_TIME is '") + bad +
                        "', no time in seconds since 1970");
        CHECK_FALSE(with_end({"p"}, bad).features.of<TimeLimitOptions>().scheduler_end_unix_ms);
    }
    CHECK(with_end({"--warn-before=60", "p"}, "1700000000")
              .features.of<TimeLimitOptions>()
              .scheduler_end_unix_ms == 1'700'000'000'000);
    CHECK_FALSE(with_end({"--warn-before=60", "--time-limit=90", "p"}, "")
                    .features.of<TimeLimitOptions>()
                    .scheduler_end_unix_ms);
    NodeFacts facts = facts_with({});
    facts.start += 5s;
    CHECK(launched({"p"}, facts).start == facts.start);
}

TEST_CASE("--join-timeout is stronger than --rdzv-conf, unless its place is the weaker one") {
    const Environment own = {{"DDPRUN_JOIN_TIMEOUT", "5"}}, conf = {{"PET_RDZV_CONF", "join_timeout=7"}};
    CHECK(parse_command_line({"--join-timeout=5", "--rdzv-conf=join_timeout=7", "p"}, {}).join_timeout == 5s);
    CHECK(parse_command_line({"--rdzv-conf=timeout=7", "--join-timeout=5", "p"}, {}).join_timeout == 5s);
    CHECK(parse_command_line({"--join-timeout=5", "p"}, conf).join_timeout == 5s);
    CHECK(parse_command_line({"p"}, conf).join_timeout == 7s);
    CHECK(parse_command_line({"--rdzv-conf=join_timeout=7", "p"}, own).join_timeout == 7s);
    CHECK(parse_command_line({"--rdzv-conf=rank=0", "p"}, own).join_timeout == 5s);
    CHECK(parse_command_line({"p"}, {}).join_timeout == 900s);
}

TEST_CASE("torchrun's keep-alive is --heartbeat, which is the stronger") {
    const auto heartbeat = [](const Words& words, const Environment& environment = {}) {
        return parse_command_line(words, environment).heartbeat;
    };
    CHECK(heartbeat({"p"}) == 5s);
    CHECK(heartbeat({"--rdzv-conf=keep_alive_interval=4,keep_alive_max_attempt=6", "p"}) == 24s);
    CHECK(heartbeat({"--rdzv-conf=keep_alive_interval=4", "p"}) == 12s);
    CHECK(heartbeat({"--rdzv-conf=keep_alive_max_attempt=1", "p"}) == 5s);
    CHECK(heartbeat({"--rdzv-conf=keep_alive_interval=4,heartbeat_timeout=9", "--heartbeat=7", "p"}) == 7s);
    CHECK(heartbeat({"--heartbeat=7", "p"}, {{"PET_RDZV_CONF", "keep_alive_interval=4"}}) == 7s);
    CHECK(heartbeat({"--rdzv-conf=keep_alive_interval=4", "p"}, {{"DDPRUN_HEARTBEAT", "7"}}) == 12s);
    CHECK(parse_refusal({"--rdzv-conf=keep_alive_interval=0", "p"}) ==
          "--rdzv-conf keep_alive_interval 0: must be a whole number from 1 to 10000000");
    CHECK(parse_refusal({"--rdzv-conf=keep_alive_interval=9999999,keep_alive_max_attempt=9999999", "p"}) ==
          "--rdzv-conf keep_alive_interval times keep_alive_max_attempt: 99999980000001 s, must be at most "
          "10000000");
}

TEST_CASE("command line: times that contradict each other are refused with the rule") {
    CHECK(parse_refusal({"--heartbeat=60", "--join-timeout=60", "p"}) ==
          "--heartbeat 60: must be less than --join-timeout, which is 60 s");
    CHECK(parse_refusal({"--heartbeat=900", "p"}) ==
          "--heartbeat 900: must be less than --join-timeout, which is 900 s");
    CHECK(parse_refusal({"--rdzv-conf=keep_alive_interval=4,join_timeout=10", "p"}) ==
          "--rdzv-conf keep_alive_interval times keep_alive_max_attempt: 12: must be less than "
          "--join-timeout, which "
          "is 10 s");
    CHECK(parse_refusal({"--warn-before=2m:TERM", "--time-limit=90s", "p"}) ==
          "--warn-before 2m:TERM: must be less than --time-limit, which is 90s");
    CHECK(parse_refusal({"--warn-before=90", "--time-limit=1.5m", "p"}) ==
          "--warn-before 90: must be less than --time-limit, which is 1.5m");
    // No contradictions: a default that is longer, and times that come one after the other or not at all.
    CHECK(parsed({"--join-timeout=1", "p"}).heartbeat == 5s);
    CHECK(parsed({"--grace=60", "--time-limit=10", "--exit-wait=60", "--min-uptime=60", "p"}).grace_period ==
          60s);
}

TEST_CASE("launch: the interpreter is named for Python programs") {
    NodeFacts facts = facts_with({{"VIRTUAL_ENV", "/v"}});
    CHECK(launched({"train.py"}, facts).interpreter.empty());
    facts.python = "/v/bin/python3";
    CHECK(launched({"train.py"}, facts).interpreter == "/v/bin/python3");
    CHECK(launched({"train"}, facts).interpreter.empty());
    facts.python_of_words = "/usr/bin/python3 (python3 on PATH), but …";
    CHECK(launched({"python3", "train.py"}, facts).interpreter == facts.python_of_words);
    facts.python_of_words.clear();
    facts.python = "/usr/bin/python3";
    facts.other_venv = true;
    CHECK(launched({"-m", "train"}, facts).interpreter ==
          "/usr/bin/python3, but VIRTUAL_ENV is /v; PYTHON_EXEC=/v/bin/python3 takes that one");
}

TEST_CASE("doctor is a command where it is the first word, and a program in torchrun's place") {
    CHECK(is_doctor_command({"doctor"}, "ddprun"));
    CHECK(is_doctor_command({"doctor", "--json"}, "other"));
    for (const Words& program :
         {Words{}, Words{"./doctor"}, Words{"--", "doctor"}, Words{"-q", "doctor"}, Words{"doctors"}})
        CHECK_FALSE(is_doctor_command(program, "ddprun"));
    for (const char* name : {kTorchrunName, kLegacyLaunchName})
        CHECK_FALSE(is_doctor_command({"doctor"}, name));
}

TEST_CASE("no habit from another launcher is an option here, and each has one answer") {
    Said line;
    std::set<std::string> own{"h", "help", "version", "licenses"};
    for (const OptionGroup& group : option_rows(line)) {
        for (const OptionRow& row : group.rows) {
            for (const std::string& name : comma_separated(row.names))
                own.insert(name.substr(name.find_first_not_of('-')));
        }
    }
    std::set<std::string> seen;
    for (const std::string& name : habit_names()) {
        CAPTURE(name);
        CHECK_FALSE(own.contains(name));
        CHECK(seen.insert(name).second);
        const std::string word = (name.size() == 1 ? "-" : "--") + name;
        CHECK_THAT(parse_refusal({word, "5", "p"}), Catch::StartsWith(word) && Catch::Contains(": this is "));
    }
    CHECK(seen.size() >= 120);
}

TEST_CASE("a program behind the hosts is one of them only where it is called as they are") {
    const auto is_refused = [](const std::string& hosts, const std::string& program) {
        return parse_refusal({"--hosts", hosts, program, "t.py"}).find("hosts stand in one word") !=
               std::string::npos;
    };
    CHECK(is_refused("gpu01", "gpu02"));
    CHECK(is_refused("gpu[01-03].here:8,u@big1", "gpu07.here:8"));
    CHECK(is_refused("u@big1:2", "u@big2:2"));
    CHECK(is_refused("10.0.0.1", "10.0.0.2"));
    CHECK(is_refused("a,", "b"));
    for (const char* program : {"./n2", "n2vec", "train2", "python3", "t.py"})
        CHECK_FALSE(is_refused("n1,n3", program));
    CHECK_FALSE(is_refused("10.0.0.1", "3dtrain"));
    CHECK_FALSE(is_refused("node", "node2"));
    CHECK_FALSE(is_refused("a,", "t.py"));
    CHECK(refusal_of([] { parse_command_line({"gpu02"}, {{"DDPRUN_HOSTS", "gpu01"}}); }) == "accepted");
}

// Each pair excludes each other; which of them counts is told by whether the other one is in the result.
TEST_CASE("of options that exclude each other the one from the stronger place counts") {
    struct Pair {
        std::string flag, value, other, other_value;
    };
    const auto pair = GENERATE(
        Pair{"--quiet", "1", "--verbose", "1"}, Pair{"--module", "1", "--no-python", "1"},
        Pair{"--python", "1", "--no-python", "1"}, Pair{"--standalone", "1", "--nnodes", "2"},
        Pair{"--detach", "1", "--tty", "0"}, Pair{"--stdin", "0", "--tty", "0"},
        Pair{"--stdin", "all", "--detach", "1"}, Pair{"--bind", "none", "--numa-binding", "node"},
        Pair{"--check", "1", "--dry-run", "1"}, Pair{"--check", "1", "--adapt", "1"},
        Pair{"--virtual-local-rank", "1", "--gpu-bind", "all"},
        Pair{"--requeue-on", "USR1", "--signals-to-handle", "SIGUSR1"},
        Pair{"--heartbeat", "60", "--join-timeout", "30"}, Pair{"--warn-before", "60", "--time-limit", "30"});
    CAPTURE(pair.flag, pair.other);
    const auto variable = [](std::string flag) {
        for (char& letter : flag) letter = letter == '-' ? '_' : static_cast<char>(std::toupper(letter));
        return "DDPRUN" + flag.substr(1);
    };
    const auto word = [](const std::string& flag, const std::string& value) { return flag + "=" + value; };
    const auto origins = [](const Words& words, const Environment& environment) {
        return parsed(joined(words, {"p"}), environment).origins;
    };
    const auto typed = origins({word(pair.flag, pair.value)}, {{variable(pair.other), pair.other_value}});
    CHECK(typed.contains(pair.flag));
    CHECK_FALSE(typed.contains(pair.other));
    const auto set = origins({word(pair.other, pair.other_value)}, {{variable(pair.flag), pair.value}});
    CHECK(set.contains(pair.other));
    CHECK_FALSE(set.contains(pair.flag));
    // From one place they are the user's to settle.
    CHECK(parse_refusal({word(pair.flag, pair.value), word(pair.other, pair.other_value), "p"}) !=
          "accepted");
    CHECK(refusal_of([&] {
              parsed({"p"}, {{variable(pair.flag), pair.value}, {variable(pair.other), pair.other_value}});
          }) != "accepted");
}

TEST_CASE("what is passed over is said with -v, and its selection goes with a list of hosts") {
    const Environment quiet{{"DDPRUN_QUIET", "1"}};
    CHECK(parsed({"-v", "p"}, quiet).verbosity == Verbosity::verbose);
    CHECK(parsed({"-v", "p"}, quiet).remarks ==
          Words{"--quiet (from DDPRUN_QUIET): passed over, since --verbose is stronger and excludes it"});
    const Said line =
        parse_command_line({"--standalone", "p"}, {{"DDPRUN_HOSTS", "a,b"}, {"DDPRUN_EXCLUDE", "b"}});
    CHECK_FALSE(line.start.is_asked());
    CHECK(line.start.exclude.empty());
    CHECK(parsed({"--nnodes=4", "p"}, {{"DDPRUN_SPARES", "1"}}).elasticity.spares == 0);
    CHECK(line.remarks.empty());
}

}  // namespace ddprun
