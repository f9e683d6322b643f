#include "apps/ddprun/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <tuple>

#include "apps/ddprun/launcher_words.hpp"
#include "apps/ddprun/option_texts.hpp"
#include "rendezvous/net/network.hpp"

namespace ddprun {
namespace {

void set_master(CommandLine& line, const OptionTexts& texts) {
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

void set_networks(CommandLine& line, const OptionTexts& texts) {
    line.networks = texts.networks;
    if (texts.networks.empty() || parse_networks(texts.networks)) return;
    throw UsageError("--net " + texts.networks +
                     ": must be networks like 10.0.0.0/8 or fd00::/8, with commas between");
}

void check_together(const CommandLine& line, const OptionTexts& texts) {
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
    if (line.detach && line.tty_rank)
        throw UsageError("--detach: goes on without a terminal, so --tty cannot be given with it");
    if (line.nnodes > 1 && line.master_port == std::uint16_t{0}) {
        throw UsageError("--master-port 0: the nodes must agree on a port; 0 is for one node only");
    }
}

void set_signals(CommandLine& line, const OptionTexts& texts) {
    line.terminating_signals = parse_signals(texts.signals_to_handle, line.unknown_signals);
    line.forwarded_signals = parse_forward(texts.forward);
    for (const auto& [received, sent] : line.forwarded_signals)
        std::erase(line.terminating_signals, received);
    line.requeue_signals = parse_requeue_on(texts.requeue_on, line.terminating_signals);
    for (int signal : line.requeue_signals) line.forwarded_signals.emplace(signal, signal);
    const auto scope = parse_signal_scope(texts.signal_scope);
    if (!scope) throw UsageError("--signal-scope " + texts.signal_scope + ": must be auto, leader or group");
    line.signal_scope = *scope;
}

void set_supervision(CommandLine& line, const OptionTexts& texts) {
    RestartOptions& restarts = line.restarts;
    auto codes = [](const std::string& flag, const std::string& text) {
        auto ranges = parse_code_ranges(text);
        if (!ranges) throw UsageError(flag + " " + text + ": must be exit codes from 1 to 255, like 1,64-78");
        return *ranges;
    };
    restarts.max_restarts = bounded("--max-restarts", texts.max_restarts, 0, kMaxRestarts);
    if (!texts.restart_on.empty()) restarts.restart_on = codes("--restart-on", texts.restart_on);
    if (!texts.no_restart_on.empty()) restarts.no_restart_on = codes("--no-restart-on", texts.no_restart_on);
    std::tie(restarts.backoff_min, restarts.backoff_max) = parse_backoff(texts.backoff);
    auto min_uptime = parse_duration(texts.min_uptime);
    if (!min_uptime) throw UsageError("--min-uptime " + texts.min_uptime + ": must be a duration like 60s");
    restarts.min_uptime = *min_uptime;
    restarts.has_progress_file = !texts.progress_file.empty();
    line.progress_file = texts.progress_file;
    line.shutdown_timeout_s = bounded("--shutdown-timeout", texts.shutdown_timeout, 0, kMaxTimeoutSeconds);
    set_signals(line, texts);
}

void set_output(CommandLine& line, OptionTexts& texts, const CLI::App& app) {
    if (app.count("--prefix") > 0) texts.output.prefix = texts.prefix;
    auto plan = parse_output_options(texts.output);
    if (const auto* error = std::get_if<std::string>(&plan)) throw UsageError(*error);
    line.output = std::get<OutputPlan>(plan);
    if (texts.quiet && texts.verbose) throw UsageError("--quiet: contradicts --verbose");
    if (texts.quiet) line.verbosity = Verbosity::quiet;
    if (texts.verbose) line.verbosity = Verbosity::verbose;
    for (const std::string& text : texts.wraps) {
        auto wrap = parse_wrap(text);
        if (const auto* error = std::get_if<std::string>(&wrap)) throw UsageError(*error);
        line.wraps.push_back(std::get<Wrap>(wrap));
    }
    if (!texts.tty_rank.empty()) line.tty_rank = bounded("--tty", texts.tty_rank, 0, kMaxRank);
    line.result_file = texts.result_file;
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& words) {
    CLI::App app("Starts a distributed program on this node as part of a job, and supervises it.");
    OptionTexts texts;
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
    line.nodes_said = texts.standalone || app.count("--nnodes") > 0;
    line.node_rank = bounded("--node-rank", texts.node_rank, 0, kMaxNodes);
    line.nproc_per_node = parse_nproc(texts.nproc_per_node);
    set_master(line, texts);
    set_networks(line, texts);
    if (texts.listen != "auto" && texts.listen != "any")
        throw UsageError("--listen " + texts.listen + ": must be auto or any");
    line.listen_any = texts.listen == "any";
    line.allow_different = texts.allow_different;
    line.run_id = texts.rdzv_id;
    line.role = texts.role;
    line.join_timeout_s = parse_rdzv_conf(texts.rdzv_conf, line.join_timeout_s);
    set_supervision(line, texts);
    set_output(line, texts, app);
    line.detach = texts.detach;
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
