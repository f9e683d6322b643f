// The options of ddprun as CLI11 knows them: names, variables, help, and the text that was given for each.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "launcher/output/output_plan.hpp"

namespace ddprun {

// What CLI11 fills in; everything with a grammar of its own stays text until it is checked here.
struct OptionTexts {
    std::string nnodes = "1";
    std::string node_rank = "0";
    std::string nproc_per_node = "1";
    std::string master_addr;
    std::string master_port;
    std::string networks;
    std::string listen = "auto";
    bool allow_different = false;
    std::string rdzv_backend = "static";
    std::string rdzv_endpoint;
    std::string rdzv_id = "none";
    std::string rdzv_conf;
    std::string max_restarts = "0";
    std::string restart_on;
    std::string no_restart_on;
    std::string backoff = "0";
    std::string min_uptime = "10";
    std::string progress_file;
    std::string signals_to_handle = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
    std::string forward;
    std::string requeue_on;
    std::string signal_scope = "auto";
    std::string monitor_interval;
    OutputOptions output;
    std::string prefix;
    std::string result_file;
    bool quiet = false;
    bool verbose = false;
    std::vector<std::string> wraps;
    std::string tty_rank;
    std::string role = "default";
    std::string gpu_bind = "auto";
    std::string shutdown_timeout = "30";
    bool detach = false;
    bool standalone = false;
    bool module = false;
    bool no_python = false;
    bool python = false;
    bool share_gpus = false;
};

// Adds every option to `app`, which fills `texts` in when it parses; both live as long as the other is used.
void add_options(CLI::App& app, OptionTexts& texts);

}  // namespace ddprun
