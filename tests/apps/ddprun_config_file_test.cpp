// The configuration file of --config.
#include <algorithm>
#include <functional>

#include "apps/ddprun/options/command_line.hpp"
#include "launcher/features/event_log.hpp"
#include "tests/apps/config_text.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

using namespace std::chrono_literals;

TEST_CASE("options: the configuration file") {
    const ConfigText config(
        "# of this site\nmax_restarts = 3\ngrace = 9\nallow-different = true\nquiet = false\nprefix = true\n"
        "role = ''\nwrap = [\"0:gdb --args\", \"1:valgrind -q\"]\nrestart-on = \"1,64-78\"\n");
    const Said line = parse_command_line({config.flag(), "p"}, {});
    CHECK(line.restarts.max_restarts == 3);
    CHECK(line.grace_period == 9s);
    CHECK(line.allow_different);
    CHECK(line.verbosity == Verbosity::usual);
    CHECK(line.output.prefix->with({"h", "default", "stdout", 5, 1}).render("NOW") == "h:5: ");
    CHECK(line.role == "default");
    CHECK(line.wraps.size() == 2);
    CHECK(line.restarts.restart_on == std::vector<CodeRange>{{1, 1}, {64, 78}});
}

TEST_CASE("options: the command line, then DDPRUN_*, then torchrun's variable, then the file") {
    // One of each kind: a number, a duration, a text, a choice, a flag, one with a value of its own, a list.
    // What a later source says is a rival of what counts.
    const struct {
        std::string name, word, own, torchruns, file;
        std::function<std::string(const Said&)> seen;
    } rows[] = {
        {"max-restarts", "4", "3", "2", "1",
         [](const Said& line) { return std::to_string(line.restarts.max_restarts); }},
        {"join-timeout", "40", "30", "", "10",
         [](const Said& line) { return std::to_string(line.join_timeout.count() / 1000); }},
        {"role", "a b", "b", "c", "d", [](const Said& line) { return line.role; }},
        {"listen", "any", "auto", "", "auto",
         [](const Said& line) { return std::string(line.listen_any ? "any" : "auto"); }},
        {"allow-different", "true", "false", "", "true",
         [](const Said& line) { return std::string(line.allow_different ? "true" : "false"); }},
        {"module", "1", "0", "1", "0", [](const Said& line) { return std::string(line.module ? "1" : "0"); }},
        {"log-dir", "/w", "/o", "/t", "/f", [](const Said& line) { return line.output.log_dir; }},
        {"restart-on", "4", "3", "", "1",
         [](const Said& line) { return std::to_string(line.restarts.restart_on->at(0).first); }},
    };
    for (const auto& row : rows) {
        CAPTURE(row.name);
        const ConfigText config(row.name + " = \"" + row.file + "\"\n");
        std::string upper = row.name;
        for (char& letter : upper) letter = letter == '-' ? '_' : static_cast<char>(letter & ~0x20);
        Environment environment;
        std::vector<std::string> words{config.flag()};
        std::vector<std::string> told{row.file};
        const auto check = [&] {
            std::vector<std::string> all = words;
            all.emplace_back("p");
            const Said line = parse_command_line(all, environment);
            CHECK(row.seen(line) == told.front());
            const auto option =
                std::find_if(line.told.begin(), line.told.end(),
                             [&row](const ToldOption& one) { return one.name == "--" + row.name; });
            REQUIRE(option != line.told.end());
            std::vector<std::string> texts;
            for (const ToldValue& value : option->told) texts.push_back(value.texts.at(0));
            CHECK(texts == told);
        };
        const auto add = [&](const std::string& value) {
            told.insert(told.begin(), value);
            check();
        };
        check();
        if (!row.torchruns.empty()) {
            environment["PET_" + upper] = row.torchruns;
            add(row.torchruns);
        }
        environment["DDPRUN_" + upper] = row.own;
        add(row.own);
        words.push_back("--" + row.name + "=" + row.word);
        add(row.word);
    }
}

TEST_CASE("options: of two files the one counts that the command line names, and none names another") {
    const ConfigText config("role = \"file\"\n");
    CHECK(parse_command_line({config.flag(), "p"}, {{"DDPRUN_CONFIG", "/no/such/file"}}).role == "file");
    CHECK(parse_command_line({config.flag(), "--role=first", "--role=last", "p"}, {}).role == "last");
}

TEST_CASE("options: what a configuration file may not say") {
    const struct {
        std::string text, why;
    } rows[] = {
        {"nnode = 2\n", "line 1, column 1: nnode: no such option; did you mean nnodes?"},
        {"completely-unknown = 2\n", "line 1, column 1: completely-unknown: no such option"},
        {"config = 'x'\n", "line 1, column 1: config: no such option"},
        {"\n[nodes]\nnnodes = 2\n", "line 2, column 1: nodes: options are in no table"},
        {"nodes.nnodes = 2\n", "line 1, column 1: nodes: options are in no table"},
        {"[[wrap]]\n", "line 1, column 1: wrap: options are in no table"},
        {"role = 1979-05-27\n", "line 1, column 8: role: must be a text, a number"},
        {"role = \"a\\u0000b\"\n", "line 1, column 8: role: has a zero byte (\\u0000) in it"},
        {"wrap = [['a']]\n", "line 1, column 9: wrap: must be a text, a number"},
        {"quiet = true\nrestart-on = 1,64-78\n", "line 2, column 15: no TOML: "},
        {"role = chief of staff\n", "line 1, column 8: no TOML: "},
        {"restart-on = [1, 2]\n", "line 1, column 1: restart-on: takes one value, and no list"},
        {"grace = 1\n shutdown-timeout = 2\n", "line 2, column 2: shutdown-timeout: is said twice"},
        {"log-dir = \"$HOME/x\"\n", "line 1, column 1: log-dir: $HOME/x: nothing fills in a $ in a file"},
        {"env = \"A=p$$w$x\"\n", "line 1, column 1: env: A=p$$w$x: nothing fills in a $ in a file"},
        {"env = \"A=$\"\n",
         "line 1, column 1: env: A=$: nothing fills in a $ in a file; write what it stands for, $$"},
        {"# ours\n{\"nnodes\": 2}\n", "line 2, column 1: no TOML: "},
    };
    for (const auto& row : rows) {
        const ConfigText config(row.text);
        CHECK_THAT(refusal({config.flag(), "p"}),
                   Catch::StartsWith("--config " + config.path().string() + ": " + row.why));
    }
    CHECK(refusal({"--config=/no/such/file", "p"}) ==
          "--config /no/such/file: cannot be read: No such file or directory");
    CHECK(refusal({"p"}, {{"DDPRUN_CONFIG", "/"}}) ==
          "--config /: cannot be read: Is a directory (from DDPRUN_CONFIG)");
}

TEST_CASE("options: the configuration file is TOML") {
    const ConfigText config(
        "rdzv-id = \"job#7\"  # the job's\nenv = \"A=p#w$$\"\nmaster-port = 29_500\nlog-dir = 'C:\\x'\n"
        "wrap = [\n  \"0:gdb\",  # one\n  '''1:a b'''\n]\nprefix = true\nmin-uptime = 0.5\n");
    const Said line = parse_command_line({config.flag(), "p"}, {});
    CHECK(line.run_id == "job#7");
    CHECK(line.variables == Variables{{"A", "p#w$"}});
    CHECK(line.master_port == 29500);
    CHECK(line.output.log_dir == "C:\\x");
    CHECK(line.wraps.size() == 2);
    CHECK(line.restarts.min_uptime == 500ms);
    const OptionOrigin origin = line.origins.at("--master-port");
    CHECK(origin == OptionOrigin{OptionSource::config_file, config.path().string() + ":3"});
}

TEST_CASE("options: what is in another grammar is said to be that") {
    for (const auto& [text, name] : {std::pair{"nnodes: 2\nrole: a\n", "YAML"},
                                     {"---\nnnodes: 2\n", "YAML"},
                                     {"{\n \"nnodes\": 2\n}\n", "JSON"}}) {
        const ConfigText config(text);
        const std::string why = refusal({config.flag(), "p"});
        CAPTURE(why);
        CHECK_THAT(why,
                   Catch::Contains("line 1, column ") &&
                       Catch::EndsWith(std::string("; this looks like ") + name + ", and only TOML is read"));
        CHECK(why.find('\n') == why.npos);
    }
}

TEST_CASE("options: ~ is the home folder in each path") {
    const Environment home{{"HOME", "/h/a"}};
    CHECK(parse_command_line({"--log-dir=~/x", "p"}, home).output.log_dir == "/h/a/x");
    CHECK(parse_command_line({"--secret-file", "~/s", "p"}, home).secret_file == "/h/a/s");
    CHECK(
        parse_command_line({"--events=~/e", "--log-file=~", "p"}, home).features.of<EventLogOptions>().path ==
        "/h/a/e");
    const ConfigText config("result-file = '~/r'\n");
    CHECK(parse_command_line({config.flag(), "p"}, home).result_file == "/h/a/r");
    CHECK(parse_command_line({"--log-dir=a~/x", "--role=~/x", "p"}, home).role == "~/x");
    const Said lists = parse_command_line(
        {"--rsh=~/bin/rsh -p 2", "--wrap=0:~/gdb -x ~ a~/b", "--program=1:~/serve --dir=~/d",
         "--rdzv-conf=timeout=9,cacert=~/ca,cert=/c~/d", "p"},
        home);
    CHECK(lists.start.rsh == std::vector<std::string>{"/h/a/bin/rsh", "-p", "2"});
    CHECK(lists.wraps.at(0).words == std::vector<std::string>{"/h/a/gdb", "-x", "~", "a~/b"});
    CHECK(lists.rank_programs.at(0).words == std::vector<std::string>{"/h/a/serve", "--dir=/h/a/d"});
    CHECK(lists.rdzv_conf.tls_files.ca.path == "/h/a/ca");
    CHECK(lists.rdzv_conf.tls_files.cert.path == "/c~/d");
    CHECK(refusal({"--log-dir=~/x", "p"}) == "--log-dir ~/x: ~ stands for HOME, which is not set");
    CHECK_THAT(refusal({"--log-dir=~ann/x", "p"}, home),
               Catch::StartsWith("--log-dir ~ann/x: ~ stands for your own"));
}

}  // namespace ddprun
