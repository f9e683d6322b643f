#include "launcher/start/local_agent.hpp"

#include <fmt/core.h>

#include "launcher/start/build_identity.hpp"
#include "launcher/start/carried_environment.hpp"
#include "launcher/start/start_tree.hpp"
#include "launcher/start/started_agent.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::string_view kPortWord = "port ";
constexpr std::string_view kRunsWord = "runs";
constexpr std::size_t kMaxAgentWord = 64;

}  // namespace

LocalAgent::LocalAgent(const boost::asio::any_io_executor& executor,
                       std::function<void(UpMessage)> on_message)
    : on_message_(std::move(on_message)),
      process_(
          executor,
          PipedEvents{.on_output = [this](std::string_view bytes) { said(output_, false, bytes); },
                      .on_error_output = [this](std::string_view bytes) { said(error_output_, true, bytes); },
                      .on_word = [this](std::string_view bytes) { answered(bytes); },
                      .on_end = [this](const ExitStatus& status) { ended(status); }}) {}

void LocalAgent::start(const StartPlan& plan, const Environment& own, int port) {
    const StartNode& node = plan.nodes.front();
    rank_ = node.rank;
    WorkerSpec spec;
    spec.argv = {own_executable()};
    const auto words = agent_words(plan, node, port);
    spec.argv.insert(spec.argv.end(), words.begin(), words.end());
    spec.environment =
        agent_environment(plan.environment, own, {.all = plan.clean_environment, .gpus = plan.own_gpus});
    spec.environment[kStartedVariable] = std::to_string(node.slots);
    std::string hosts;
    for (const std::string& host : plan.host_names) hosts += (hosts.empty() ? "" : ",") + host;
    if (!hosts.empty() && hosts.size() <= kMaxStartedHosts) spec.environment[kStartedHostsVariable] = hosts;
    if (!plan.run_record.empty() && plan.run_record.size() <= kMaxStartedRun)
        spec.environment[kStartedRunVariable] = plan.run_record;
    if (!plan.secret.empty()) spec.environment["DDPRUN_SECRET"] = plan.secret;
    if (!node.devices.empty()) spec.environment["CUDA_VISIBLE_DEVICES"] = node.devices;
    spec.death_signal = 0;  // By its line it notices, and decides what that means.
    if (const auto wrong = process_.start(launcher_, std::move(spec), true)) {
        ended_ = true;
        on_message_(HostFailed{{node.rank}, fmt::format("{}: {}", node.target, *wrong), true});
    }
}

void LocalAgent::said(LineSplitter& lines, bool is_error, std::string_view bytes) {
    lines.push(bytes, [&](std::string_view block) {
        on_message_(AgentOutput{*rank_, is_error, std::string(block)});
    });
}

void LocalAgent::answered(std::string_view bytes) {
    words_ += bytes;
    for (auto end = words_.find('\n'); end != std::string::npos; end = words_.find('\n')) {
        const std::string word = words_.substr(0, end);
        words_.erase(0, end + 1);
        if (word == kRunsWord) on_message_(AgentRuns{*rank_});
        if (!word.starts_with(kPortWord)) continue;
        if (const auto port = whole_number<int>(std::string_view(word).substr(kPortWord.size()), 1, 65535))
            on_message_(PortTaken{*port});
    }
    if (words_.size() > kMaxAgentWord) words_.clear();
}

void LocalAgent::ended(const ExitStatus& status) {
    for (const bool is_error : {false, true}) {
        std::string rest = (is_error ? error_output_ : output_).take_rest();
        if (!rest.empty()) on_message_(AgentOutput{*rank_, is_error, std::move(rest)});
    }
    ended_ = true;
    on_message_(AgentEnded{*rank_, shell_code(status), std::holds_alternative<Signaled>(status)});
}

}  // namespace ddprun::inline launch
