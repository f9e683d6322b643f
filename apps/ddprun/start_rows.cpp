#include "apps/ddprun/start_rows.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>

#include "apps/ddprun/option_values.hpp"
#include "launcher/plan/rank_command.hpp"
#include "launcher/start/remote_shell.hpp"

namespace ddprun::inline app {
namespace {

// Where they are given, nothing is started.
constexpr std::array<std::string_view, 3> kShowingFlags{"--explain", "--dry-run", "--json"};

std::vector<std::string> parse_rsh(const std::string& text) {
    auto words = value_or_throw<BadValue>(split_shell_words(text));
    if (words.empty()) throw BadValue("must be a command that is called as COMMAND HOST LINE");
    if (const auto why = why_no_remote_shell(words)) throw BadValue(*why);
    return words;
}

std::pair<std::string, std::string> parse_variable(const std::string& text) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
        throw BadValue("must be NAME=VALUE; NAME= for an empty value");
    return {text.substr(0, equals), text.substr(equals + 1)};
}

// RANKS:NAME=VALUE, the ranks as those of --program.
RankVariable parse_rank_variable(const std::string& text) {
    constexpr std::string_view kLocal = "local=";
    const auto colon = text.find(':');
    if (colon == std::string::npos) throw BadValue("must be RANKS:NAME=VALUE, like 3:NCCL_DEBUG=INFO");
    std::string_view ranks = std::string_view(text).substr(0, colon);
    RankVariable variable;
    variable.local = ranks.starts_with(kLocal);
    if (variable.local) ranks.remove_prefix(kLocal.size());
    variable.ranks = value_or_throw<BadValue>(parse_rank_set(ranks));
    std::tie(variable.name, variable.value) = parse_variable(text.substr(colon + 1));
    return variable;
}

}  // namespace

OptionGroup start_rows(CommandLine& line) {
    StartRequest& start = line.start;
    return {
        "Hosts",
        {{"--hosts", "HOST[:N],…",
          "Start the job on these hosts, with N workers each, like gpu[01-04]:8,alice@big1:4\nThe first "
          "one is node 0. "
          "An IPv6 address stands in brackets: [fd00::1]:8. This machine needs no ssh.",
          into(start.hosts)},
         {"--hostfile", "FILE",
          "Likewise, a host a line: HOST slots=N, HOST:N or HOST, # begins a comment\nA host that stands "
          "there again has "
          "one slot more.",
          into(start.host_file)},
         {"--include", "HOST[:SLOTS]@…",
          "Only these of the hosts, and of their slots, like gpu01@gpu02:0,2-3 or gpu[03-08],big1\nThe slots "
          "are GPUs: the host's agent has them as CUDA_VISIBLE_DEVICES.",
          into(start.include)},
         {"--exclude", "HOST[:SLOTS]@…", "All hosts and slots but these", into(start.exclude)},
         {"--rsh", "COMMAND",
          "What reaches a host, called as COMMAND HOST LINE; LINE is for its shell (ssh)\nLike \"ssh -p "
          "2222\", or srun, blaunch or qrsh within their jobs. {host} and {line} among its words say "
          "where the "
          "two belong. By default ssh in batch mode, which asks nothing, or in an allocation what its "
          "scheduler "
          "has.",
          into(start.rsh, parse_rsh)},
         {"--fan-out", "N",
          "Hosts that one machine reaches itself; more are reached by way of others (32)\nThese have to "
          "be able to reach "
          "each other by ssh.",
          into(start.fan_out, number(2, kMaxFanOut))},
         {"--no-ship", "",
          "Do not copy ddprun to hosts that lack it, or have another build\nOtherwise it is copied into "
          "a folder in "
          "TMPDIR, and removed as soon as it runs.",
          into(start.no_ship)}}};
}

OptionGroup variable_rows(CommandLine& line) {
    return {
        "Workers' variables",
        {{.names = "--env",
          .metavar = "NAME=VALUE",
          .help = "Set a variable for all workers\nMay be repeated.",
          .set = [&line](const std::string& text) { line.variables.push_back(parse_variable(text)); },
          .repeated = true},
         {.names = "--env-rank",
          .metavar = "RANKS:NAME=VALUE",
          .help =
              "Set a variable for these ranks (0,8-15; local=0; *)\nMay be repeated; the last one counts.",
          .set =
              [&line](const std::string& text) { line.rank_variables.push_back(parse_rank_variable(text)); },
          .repeated = true},
         {"--clean-env", "",
          "Workers do not inherit ddprun's own variables\nBut HOME, USER, LOGNAME, SHELL, PATH, TERM, LANG, "
          "LANGUAGE, "
          "LC_*, TZ, TMPDIR, HOSTNAME and the masks of GPUs (CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, "
          "HIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, ZE_AFFINITY_MASK, GPU_DEVICE_ORDINAL); with --hosts "
          "those of the host they run on.",
          into(line.clean_environment)}}};
}

std::vector<std::string> without_start_words(const std::vector<std::string>& words) {
    CommandLine unused;
    const OptionGroup group = start_rows(unused);
    const auto shows = [](const std::string& name) {
        return std::find(kShowingFlags.begin(), kShowingFlags.end(), name) != kShowingFlags.end();
    };
    std::vector<std::string> kept;
    for (const std::string& word : words) {
        const std::string name = word.substr(0, word.find('='));
        const bool is_starters =
            std::any_of(group.rows.begin(), group.rows.end(),
                        [&name](const OptionRow& row) { return long_name(row) == name; });
        if (!is_starters && !shows(name)) kept.push_back(word);
    }
    return kept;
}

}  // namespace ddprun::inline app
