#include "apps/ddprun/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <numeric>

namespace ddprun {
namespace {

// What CLI11 fills in; everything with a grammar of its own stays text until it is checked here.
struct Texts {
    std::string nnodes = "1";
    std::string node_rank = "0";
    std::string nproc_per_node = "1";
    std::string master_addr;
    std::string master_port;
    std::string rdzv_backend = "static";
    std::string rdzv_endpoint;
    std::string rdzv_id = "none";
    std::string rdzv_conf;
    std::string max_restarts = "0";
    std::string monitor_interval;
    std::string role = "default";
    std::string gpu_bind = "auto";
    std::string shutdown_timeout = "30";
    bool standalone = false;
    bool module = false;
    bool no_python = false;
    bool python = false;
    bool share_gpus = false;
};

// CLI11's own layout with our usage line; the program is no option of CLI11's.
class HelpText : public CLI::Formatter {
  public:
    std::string make_usage(const CLI::App*, std::string) const override {
        return "Usage: ddprun [OPTIONS] PROGRAM [ARGUMENTS…]\n";
    }
};

void add_options(CLI::App& app, Texts& texts) {
    app.set_help_flag("-h,--help", "Show this text and exit");
    app.set_version_flag("--version", "ddprun " DDPRUN_VERSION, "Show the version and exit");

    const char* group = "Nodes";
    auto value = [&](const char* names, std::string& text, const char* type, const char* help,
                     const char* variable) {
        auto* option = app.add_option(names, text, help)->group(group)->type_name(type);
        if (variable != nullptr) option->envname(variable);
    };
    auto flag = [&](const char* names, bool& set, const char* help, const char* variable) {
        auto* option = app.add_flag(names, set, help)->group(group);
        if (variable != nullptr) option->envname(variable);
    };
    value("--nnodes", texts.nnodes, "N", "Number of nodes (1)", "PET_NNODES");
    value("--node-rank", texts.node_rank, "R",
          "This node's number, 0 to N-1; node 0 hosts the rendezvous (0)", "PET_NODE_RANK");
    value("--nproc-per-node", texts.nproc_per_node, "P",
          "Workers on this node: a number, or gpu (one for each), cpu, auto; nodes may differ (1)",
          "PET_NPROC_PER_NODE");
    value("--master-addr", texts.master_addr, "HOST",
          "Address or name of node 0, as the other nodes reach it", "PET_MASTER_ADDR");
    value("--master-port", texts.master_port, "PORT",
          "Port on node 0 (a free one on a single node, else 29500)", "PET_MASTER_PORT");
    flag("--standalone", texts.standalone, "One node and a free port; the default on one node",
         "PET_STANDALONE");

    group = "Rendezvous";
    value("--rdzv-backend", texts.rdzv_backend, "NAME", "static", "PET_RDZV_BACKEND");
    value("--rdzv-endpoint", texts.rdzv_endpoint, "HOST[:PORT]",
          "Another way to write --master-addr and --master-port", "PET_RDZV_ENDPOINT");
    value("--rdzv-id", texts.rdzv_id, "ID", "Job id, the same on all nodes (none)", "PET_RDZV_ID");
    value("--rdzv-conf", texts.rdzv_conf, "KEY=VALUE,…", "join_timeout=900: seconds to wait for all nodes",
          "PET_RDZV_CONF");

    group = "Program";
    flag("-m,--module", texts.module, "The program is a Python module", "PET_MODULE");
    flag("--no-python", texts.no_python, "Execute the program itself, also if its name ends in .py",
         "PET_NO_PYTHON");
    flag("--python", texts.python, "Run the program by python3 -u, whatever its name", nullptr);
    value("--role", texts.role, "NAME", "Label of these workers, ROLE_NAME (default)", "PET_ROLE");

    group = "Devices";
    value("--gpu-bind", texts.gpu_bind, "HOW",
          "single: a worker sees its own GPU; all: it sees all and uses LOCAL_RANK; none: untouched; "
          "auto: all for Python programs, single for others (auto)",
          nullptr);
    flag("--share-gpus", texts.share_gpus, "Allow more workers than GPUs", nullptr);

    group = "Supervision";
    value("--shutdown-timeout,--grace", texts.shutdown_timeout, "S",
          "Seconds between the signal to stop and SIGKILL (30)", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
    value("--max-restarts", texts.max_restarts, "N", "0: a failure ends the job (0)", "PET_MAX_RESTARTS");
    value("--monitor-interval", texts.monitor_interval, "S", "No effect: nothing is polled",
          "PET_MONITOR_INTERVAL");
}

[[noreturn]] void refuse_unknown(const std::string& flag, const std::vector<const CLI::Option*>& options) {
    std::vector<std::string> names;
    for (const CLI::Option* option : options) {
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    auto meant = nearest(flag, names);
    throw UsageError(flag + ": no such flag" +
                     (meant ? "; did you mean " + *meant + "?" : "; see ddprun --help"));
}

// Splits the words into the launcher's, with dashes in the options' names, and the program's. The launcher's
// end at
// "--" or at the first word that is neither an option nor an option's value.
std::vector<std::string> take_launcher_words(const CLI::App& app, const std::vector<std::string>& words,
                                             std::vector<std::string>& program) {
    const std::vector<const CLI::Option*> options = app.get_options();
    std::vector<std::string> launcher;
    std::size_t i = 0;
    for (; i < words.size(); ++i) {
        std::string word = words[i];
        if (word == "--") {
            ++i;
            break;
        }
        if (word.size() < 2 || word.front() != '-') break;
        const bool is_long = word[1] == '-';
        const std::size_t name_end = is_long ? std::min(word.find('='), word.size()) : 2;
        std::string name = word.substr(0, name_end);
        std::replace(name.begin() + 2, name.end(), '_', '-');
        auto match = std::find_if(options.begin(), options.end(),
                                  [&](const CLI::Option* option) { return option->check_name(name); });
        if (match == options.end()) refuse_unknown(name, options);
        launcher.push_back(name + word.substr(name_end));
        const bool wants_value = (*match)->get_items_expected_max() > 0;
        if (!wants_value || name_end < word.size()) continue;
        if (i + 1 == words.size()) throw UsageError(name + ": needs a value");
        // "--name=value" keeps a value that begins with a dash from being read as an option.
        launcher.back() += (is_long ? "=" : "") + words[++i];
    }
    program.assign(words.begin() + static_cast<std::ptrdiff_t>(std::min(i, words.size())), words.end());
    return launcher;
}

std::optional<int> whole_number(std::string_view text) {
    int value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

int bounded(const std::string& flag, const std::string& text, int low, int high) {
    auto value = whole_number(text);
    if (!value || *value < low || *value > high) {
        throw UsageError(flag + " " + text + ": must be a whole number from " + std::to_string(low) + " to " +
                         std::to_string(high));
    }
    return *value;
}

int parse_nnodes(const std::string& text) {
    auto colon = text.find(':');
    if (colon == std::string::npos) return bounded("--nnodes", text, 1, kMaxNodes);
    auto low = whole_number(text.substr(0, colon)), high = whole_number(text.substr(colon + 1));
    if (!low || !high || *low < 1 || *high < *low || *high > kMaxNodes) {
        throw UsageError("--nnodes " + text + ": must be N, or MIN:MAX with 1 <= MIN <= MAX");
    }
    if (*low != *high)
        throw UsageError("--nnodes " + text +
                         ": a changing number of nodes is not supported; give one number");
    return *high;
}

std::string parse_nproc(const std::string& text) {
    if (text == "auto" || text == "gpu" || text == "cpu") return text;
    constexpr int kMaxWorkersPerNode = 4096;  // the coordinator's limit, see Coordinator::kMaxWorkersPerNode
    if (!whole_number(text))
        throw UsageError("--nproc-per-node " + text + ": must be a number, auto, gpu or cpu");
    bounded("--nproc-per-node", text, 1, kMaxWorkersPerNode);
    return text;
}

// Reads `join_timeout` (or its older name `timeout`) out of KEY=VALUE,… and knows torchrun's other keys.
int parse_rdzv_conf(const std::string& conf, int join_timeout) {
    static const std::vector<std::string> kKnown = {"join_timeout",
                                                    "timeout",
                                                    "last_call_timeout",
                                                    "close_timeout",
                                                    "heartbeat_timeout",
                                                    "rank",
                                                    "read_timeout",
                                                    "is_host",
                                                    "store_type",
                                                    "keep_alive_interval",
                                                    "keep_alive_max_attempt"};
    if (conf.empty()) return join_timeout;
    for (const std::string& entry : CLI::detail::split(conf, ',')) {
        auto equals = entry.find('=');
        std::string key = CLI::detail::trim_copy(entry.substr(0, equals));
        std::string value =
            equals == std::string::npos ? "" : CLI::detail::trim_copy(entry.substr(equals + 1));
        if (key.empty() || value.empty())
            throw UsageError("--rdzv-conf " + conf + ": must be KEY=VALUE,KEY=VALUE,…");
        if (std::find(kKnown.begin(), kKnown.end(), key) == kKnown.end()) {
            auto meant = nearest(key, kKnown);
            throw UsageError("--rdzv-conf " + key + ": no such key" +
                             (meant ? "; did you mean " + *meant + "?" : ""));
        }
        if (key == "join_timeout" || key == "timeout") {
            join_timeout = bounded("--rdzv-conf " + key, value, 1, kMaxTimeoutSeconds);
        }
    }
    return join_timeout;
}

void set_master(CommandLine& line, const Texts& texts) {
    if (!texts.master_addr.empty()) {
        auto endpoint = parse_endpoint(texts.master_addr, 0);
        if (!endpoint || endpoint->port != 0) {
            throw UsageError("--master-addr " + texts.master_addr +
                             ": must be a name, an IPv4 or an IPv6 address");
        }
        line.master_addr = endpoint->host;
    }
    if (!texts.master_port.empty()) {
        line.master_port = parse_port(texts.master_port);
        if (!line.master_port)
            throw UsageError("--master-port " + texts.master_port + ": must be from 0 to 65535");
    }
    if (texts.rdzv_endpoint.empty()) return;
    auto endpoint = parse_endpoint(texts.rdzv_endpoint, line.master_port.value_or(0));
    if (!endpoint) throw UsageError("--rdzv-endpoint " + texts.rdzv_endpoint + ": must be HOST or HOST:PORT");
    if (line.master_addr && *line.master_addr != endpoint->host) {
        throw UsageError("--rdzv-endpoint " + texts.rdzv_endpoint + ": contradicts --master-addr " +
                         *line.master_addr);
    }
    line.master_addr = endpoint->host;
    if (endpoint->port != 0) line.master_port = endpoint->port;
}

void check_together(const CommandLine& line, const Texts& texts) {
    if (texts.rdzv_backend != "static") {
        throw UsageError("--rdzv-backend " + texts.rdzv_backend + ": only static is supported");
    }
    if (texts.standalone && line.nnodes != 1) {
        throw UsageError("--standalone: one node only, but --nnodes is " + std::to_string(line.nnodes));
    }
    if (line.node_rank >= line.nnodes) {
        throw UsageError("--node-rank " + std::to_string(line.node_rank) +
                         ": must be less than --nnodes, which is " + std::to_string(line.nnodes));
    }
    // A default would make every node wait for itself.
    if (line.nnodes > 1 && !line.master_addr) {
        throw UsageError("--nnodes " + std::to_string(line.nnodes) +
                         ": needs --master-addr, the address of node 0");
    }
    if (line.nnodes > 1 && line.master_port == std::uint16_t{0}) {
        throw UsageError("--master-port 0: the nodes must agree on a port; 0 is for one node only");
    }
    if (texts.max_restarts != "0") {
        bounded("--max-restarts", texts.max_restarts, 0, kMaxTimeoutSeconds);
        throw UsageError("--max-restarts " + texts.max_restarts + ": restarts are not supported; use 0");
    }
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
    std::optional<std::string> best;
    std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
    for (const std::string& candidate : candidates) {
        // Levenshtein distance, one row at a time.
        std::vector<std::size_t> row(candidate.size() + 1);
        std::iota(row.begin(), row.end(), std::size_t{0});
        for (std::size_t i = 1; i <= word.size(); ++i) {
            std::size_t diagonal = std::exchange(row[0], i);
            for (std::size_t j = 1; j <= candidate.size(); ++j) {
                const std::size_t replaced = diagonal + (word[i - 1] == candidate[j - 1] ? 0 : 1);
                diagonal = row[j];
                row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
            }
        }
        if (row.back() < best_distance) {
            best_distance = row.back();
            best = candidate;
        }
    }
    return best;
}

CommandLine parse_command_line(const std::vector<std::string>& words) {
    CLI::App app("Starts a distributed program on this node as part of a job, and supervises it.");
    app.formatter(std::make_shared<HelpText>());
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    Texts texts;
    add_options(app, texts);

    CommandLine line;
    std::vector<std::string> launcher = take_launcher_words(app, words, line.program);
    std::reverse(launcher.begin(), launcher.end());  // CLI11 takes a vector from its back.
    try {
        app.parse(std::move(launcher));
    } catch (const CLI::CallForHelp&) {
        line.show = app.help();
        return line;
    } catch (const CLI::CallForVersion& version) {
        line.show = std::string(version.what()) + "\n";
        return line;
    } catch (const CLI::ParseError& error) {
        throw UsageError(error.what());
    }

    line.nnodes = parse_nnodes(texts.nnodes);
    line.node_rank = bounded("--node-rank", texts.node_rank, 0, kMaxNodes);
    line.nproc_per_node = parse_nproc(texts.nproc_per_node);
    set_master(line, texts);
    line.run_id = texts.rdzv_id;
    line.role = texts.role;
    line.join_timeout_s = parse_rdzv_conf(texts.rdzv_conf, line.join_timeout_s);
    line.shutdown_timeout_s = bounded("--shutdown-timeout", texts.shutdown_timeout, 0, kMaxTimeoutSeconds);
    line.module = texts.module;
    line.no_python = texts.no_python;
    line.python = texts.python;
    line.share_gpus = texts.share_gpus;
    line.gpu_bind = texts.gpu_bind;
    if (line.gpu_bind != "auto" && line.gpu_bind != "single" && line.gpu_bind != "all" &&
        line.gpu_bind != "none") {
        throw UsageError("--gpu-bind " + line.gpu_bind + ": must be auto, single, all or none");
    }
    check_together(line, texts);
    if (line.program.empty())
        throw UsageError("no program given; usage: ddprun [OPTIONS] PROGRAM [ARGUMENTS…]");
    return line;
}

}  // namespace ddprun
