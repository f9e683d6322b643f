#include "tests/rendezvous/coordinator/transcript.hpp"

#include <fmt/core.h>

#include <sstream>

#include "rendezvous/control/control_text.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

using namespace std::chrono_literals;
namespace {

template <class... Cases>
struct Overloaded : Cases... {
    using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

// What of a message a story is about; nothing for those that it is not about.
std::string text_of(const ControlMessage& message) {
    return std::visit(
        Overloaded{[](const Welcome&) { return std::string("welcome"); },
                   [](const Parked& one) { return "parked: " + one.reason; },
                   [](const Waiting& one) { return "waiting: " + to_text(one); },
                   [](const MemberList& one) {
                       std::string text = fmt::format("members of round {}, epoch {}:", one.round, one.epoch);
                       for (const Member& member : one.members) text += " " + member.host;
                       return text;
                   },
                   [](const RoundReady& one) {
                       return fmt::format("round {} begins: rank {} of {}, restarts {}, resizes {}",
                                          one.round, one.group_rank, one.group_world_size, one.restart_count,
                                          one.resizes);
                   },
                   [](const Stop& one) { return "stop: " + to_text(one.cause); },
                   [](const Restarting& one) { return "another round: " + to_text(one); },
                   [](const Finish& one) {
                       return fmt::format("finish: exit code {}{}{}", one.exit_code,
                                          one.message.empty() ? "" : ", ", one.message);
                   },
                   [](const Lead& one) { return fmt::format("follow me, epoch {}", one.epoch); },
                   [](const SteppedDown& one) { return "no coordinator: " + one.reason; },
                   [](const MemberGone& one) { return fmt::format("rank {} is dead", one.group_rank); },
                   [](const GivenUp& one) { return "given up: " + one.reason; },
                   [](const Refused& one) { return "refused: " + one.reason; },
                   [](const auto&) { return std::string(); }},
        message);
}

}  // namespace

std::string Transcript::replay(const std::string& story) {
    Transcript transcript;
    std::istringstream in(story);
    for (std::string line; std::getline(in, line);) {
        if (line.starts_with(">")) continue;
        transcript.lines_.push_back(line);
        if (!line.empty() && !line.starts_with("#")) transcript.happen(line);
    }
    std::string text;
    for (const std::string& line : transcript.lines_) text += line + "\n";
    return text;
}

void Transcript::happen(const std::string& line) {
    INFO(line);
    if (line.starts_with("job ")) return begin_job(line.substr(4));
    REQUIRE(coordinator_);
    if (line == "wait") {
        for (const std::size_t said = lines_.size(); lines_.size() == said;) {
            const auto deadline = coordinator_->next_deadline();
            REQUIRE(deadline);
            now_ = std::max(now_, *deadline);
            take(coordinator_->tick(now_));
        }
        return;
    }
    const std::size_t space = line.find(' ');
    REQUIRE(space != line.npos);
    act(std::stoi(line.substr(0, space)), line.substr(space + 1));
}

void Transcript::begin_job(const std::string& terms) {
    std::istringstream words(terms);
    std::string nodes, word;
    words >> nodes >> word >> max_restarts_;
    const std::size_t colon = nodes.find(':');
    nnodes_ = std::stoi(nodes.substr(colon == nodes.npos ? 0 : colon + 1));
    min_nodes_ = colon == nodes.npos ? 0 : std::stoi(nodes);
    coordinator_ = std::make_unique<Coordinator>(options_of(1), now_);
}

CoordinatorOptions Transcript::options_of(int host) const {
    CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = nnodes_};
    if (min_nodes_ > 0) options.elasticity.min_nodes = min_nodes_;
    options.elasticity.last_call = 7s;
    options.join_timeout = 100s;
    options.heartbeat = 60s;
    options.restarts = {.max_restarts = max_restarts_, .min_uptime = 0ms};
    options.own_agent = hello_of(host);
    options.failover = true;
    return options;
}

Hello Transcript::hello_of(int agent) const {
    Hello one = hello(kUnnumbered, nnodes_);
    one.min_nodes = min_nodes_;
    one.host = "gpu" + std::to_string(agent);
    one.pid = 100 + agent;
    one.grace_ms = 20'000;
    one.meeting_address = one.host;
    one.meeting_port = 29500;
    return one;
}

int Transcript::round_of(int agent) const { return rounds_.at(agent).round; }

void Transcript::say(int agent, ControlMessage message) {
    take(coordinator_->receive(connections_.at(agent), message, now_));
}

void Transcript::act(int agent, const std::string& what) {
    if (what == "hello") {
        connections_[agent] = ++last_connection_;
        memories_.try_emplace(agent, kUnnumbered);
        Hello one = hello_of(agent);
        if (elects_) one.following = memories_.at(agent).following();
        return say(agent, one);
    }
    if (what == "takes over") {
        auto options = options_of(agent);
        options.predecessor = memories_.at(agent).members();
        coordinator_ = std::make_unique<Coordinator>(std::move(options), now_);
        elects_ = true;
        return;
    }
    if (what.starts_with("saw ")) {
        const int dead = memories_.at(std::stoi(what.substr(4))).following()->group_rank;
        return memories_.at(agent).learn(
            MemberGone{memories_.at(agent).following()->last.epoch, round_of(agent), dead});
    }
    if (what == "succeeded") return say(agent, WorkersSucceeded{round_of(agent)});
    if (what == "gone") return say(agent, gone(round_of(agent), false));
    if (what == "signalled") return say(agent, AgentSignalled{round_of(agent), 15, {}});
    if (what == "follows") return say(agent, Follow{epochs_.at(agent)});
    if (what.starts_with("failed ")) {
        WorkerFailed failed = failed_with(std::stoi(what.substr(7)), rounds_.at(agent).base_rank);
        failed.round = round_of(agent);
        return say(agent, failed);
    }
    REQUIRE((what == "is killed" || what == "is cut off"));
    take(coordinator_->closed(connections_.at(agent), now_, what == "is killed"));
}

void Transcript::take(const Coordinator::Outbox& outbox) {
    for (const auto& outgoing : outbox) {
        int to = 0;
        for (const auto& [agent, connection] : connections_) {
            if (connection == outgoing.to) to = agent;
        }
        memories_.at(to).learn(outgoing.message);
        if (const auto* ready = std::get_if<RoundReady>(&outgoing.message)) rounds_[to] = *ready;
        if (const auto* lead = std::get_if<Lead>(&outgoing.message)) epochs_[to] = lead->epoch;
        if (const auto* question = std::get_if<Heartbeat>(&outgoing.message))
            take(coordinator_->receive(outgoing.to, *question, now_));
        const std::string text = text_of(outgoing.message);
        if (!text.empty()) lines_.push_back(fmt::format("> {}: {}", to, text));
    }
}

}  // namespace ddprun
