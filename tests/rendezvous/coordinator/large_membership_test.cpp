// Jobs of very many nodes that come and go: what that costs, in messages, bytes and time.
#include <ctime>
#include <deque>
#include <set>

#include "rendezvous/control/control_wire.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/sanitized.hpp"

namespace ddprun {

using namespace std::chrono_literals;
namespace {

struct Cost {
    std::size_t messages = 0, bytes = 0;
    std::size_t deaths_told = 0;  // of those messages; each agent hears of the first ones only
};

// Agents that do at once what they are told. The first of them hosts, over connection 1.
class Crowd {
  public:
    explicit Crowd(int nodes) : nodes_(nodes), lives_(static_cast<std::size_t>(nodes)) {
        CoordinatorOptions options{.version = "1", .job_id = "job", .nnodes = nodes};
        options.elasticity = {.min_nodes = nodes / 2, .last_call = 30s};
        options.heartbeat = 6s;
        options.failover = true;
        options.own_agent = hello_of(0);
        coordinator_.emplace(std::move(options), kStart);
    }

    void come(int agent) {
        const std::uint64_t connection = ++last_connection_;
        agents_[connection] = {.number = agent};
        say(connection, hello_of(agent));
    }
    // With its agent, or only from here.
    void lose(int agent, bool is_dead) {
        const auto lost = connection_of(agent);
        agents_.erase(lost);
        ++lives_[static_cast<std::size_t>(agent)];
        take(timed([&] { return coordinator_->closed(lost, now_, is_dead); }));
    }
    void settle() {
        while (!under_way_.empty()) {
            const auto next = std::move(under_way_.front());
            under_way_.pop_front();
            if (!agents_.contains(next.first)) continue;
            take(timed([&] { return coordinator_->receive(next.first, next.second, now_); }));
        }
    }
    void wait() {
        now_ = std::max(now_, coordinator_->next_deadline().value());
        take(timed([&] { return coordinator_->tick(now_); }));
        settle();
    }
    void wait_for_round(int round) {
        for (int i = 0; !runs(round); ++i) {
            REQUIRE(i < 100);
            wait();
        }
    }
    void succeed() {
        for (const auto& [connection, agent] : agents_)
            say(connection, WorkersSucceeded{agent.round.value().round});
        settle();
    }

    bool runs(int round) const { return !ranks_.empty() && round_ == round; }
    // All of them, each one's own.
    bool has_ranks(std::size_t nodes) const {
        return ranks_.size() == nodes && *ranks_.begin() == 0 &&
               *ranks_.rbegin() == static_cast<int>(nodes) - 1;
    }
    bool is_over() const { return coordinator_->empty(); }
    const Cost& cost() const { return cost_; }
    // Of the coordinator, on a processor.
    std::chrono::milliseconds time() const { return 1000ms * time_ / CLOCKS_PER_SEC; }

  private:
    struct Agent {
        int number = 0;
        std::optional<RoundReady> round;
    };

    Hello hello_of(int agent) const {
        Hello one = hello(kUnnumbered, nodes_, 8);
        one.min_nodes = nodes_ / 2;
        one.host = "gpu" + std::to_string(agent);
        one.pid = 100 + (lives_.empty() ? 0 : lives_.at(static_cast<std::size_t>(agent)));
        one.grace_ms = 20'000;
        one.meeting_address = "10.0.0.1";
        one.meeting_port = 29500;
        return one;
    }
    std::uint64_t connection_of(int agent) const {
        for (const auto& [connection, one] : agents_) {
            if (one.number == agent) return connection;
        }
        FAIL("agent " << agent << " is not there");
        return 0;
    }
    template <class Call>
    Coordinator::Outbox timed(Call call) {
        const std::clock_t since = std::clock();
        Coordinator::Outbox outbox = call();
        time_ += std::clock() - since;
        return outbox;
    }
    void count(const ControlMessage& message) {
        // Nearly all bytes are the same list's, to everybody.
        const auto* list = std::get_if<MemberList>(&message);
        if (list == nullptr || list->version() != last_list_ || list_bytes_ == 0) {
            const std::size_t bytes = encode_control(message).size();
            cost_.bytes += bytes;
            if (list != nullptr) {
                last_list_ = list->version();
                list_bytes_ = bytes;
            }
        } else {
            cost_.bytes += list_bytes_;
        }
        ++cost_.messages;
        cost_.deaths_told += std::holds_alternative<MemberGone>(message) ? 1 : 0;
    }
    void say(std::uint64_t from, ControlMessage message) {
        count(message);
        under_way_.emplace_back(from, std::move(message));
    }
    void take(const Coordinator::Outbox& outbox) {
        for (const auto& outgoing : outbox) {
            count(outgoing.message);
            hear(outgoing.to, outgoing.message);
        }
    }
    void hear(std::uint64_t to, const ControlMessage& message) {
        Agent& agent = agents_.at(to);
        if (const auto* ready = std::get_if<RoundReady>(&message)) {
            if (ready->round != round_) ranks_.clear();
            round_ = ready->round;
            CHECK(ranks_.insert(ready->group_rank).second);
            agent.round = *ready;
            say(to, Heartbeat{});
        } else if (const auto* question = std::get_if<Heartbeat>(&message)) {
            say(to, Heartbeat{question->number});
        } else if (const auto* stop = std::get_if<Stop>(&message)) {
            say(to, gone(stop->round, false));
        } else if (const auto* finish = std::get_if<Finish>(&message)) {
            CHECK(finish->exit_code == 0);
            say(to, Goodbye{});
        }
        CHECK_FALSE(std::holds_alternative<Refused>(message));
        CHECK_FALSE(std::holds_alternative<GivenUp>(message));
    }

    int nodes_;
    std::vector<int> lives_;
    std::optional<Coordinator> coordinator_;
    std::map<std::uint64_t, Agent> agents_;  // by their connections
    std::uint64_t last_connection_ = 0;
    std::deque<std::pair<std::uint64_t, ControlMessage>> under_way_;
    TimePoint now_ = kStart;
    int round_ = -1;
    std::set<int> ranks_;  // that agents have in that round
    Cost cost_;
    std::pair<int, int> last_list_;
    std::size_t list_bytes_ = 0;
    std::clock_t time_ = 0;
};

// Three rounds: all of them, without a tenth, all again.
Cost come_and_go(int nodes) {
    const int lost = nodes / 10;
    const auto all = static_cast<std::size_t>(nodes), left = static_cast<std::size_t>(nodes - lost);
    Crowd crowd(nodes);
    std::string times;
    const auto note = [&](const char* what) {
        times += std::string(times.empty() ? "" : ", ") + what + " after " +
                 std::to_string(crowd.time().count()) + " ms";
    };
    for (int agent = 0; agent < nodes; ++agent) crowd.come(agent);
    crowd.settle();
    CHECK(crowd.runs(0));
    CHECK(crowd.has_ranks(all));
    note("round 0");
    for (int i = 0; i < 5; ++i) crowd.wait();
    for (int agent = lost; agent < 2 * lost; ++agent) crowd.lose(agent, agent % 2 == 0);
    crowd.settle();
    note("all stopped");
    crowd.wait_for_round(1);
    CHECK(crowd.has_ranks(left));
    note("round 1");
    for (int i = 0; i < 5; ++i) crowd.wait();
    for (int agent = lost; agent < 2 * lost; ++agent) crowd.come(agent);
    crowd.settle();
    crowd.wait_for_round(2);
    CHECK(crowd.has_ranks(all));
    note("round 2");
    crowd.succeed();
    CHECK(crowd.is_over());
    note("the end");
    CHECK(crowd.time() < kHangGuard);
    WARN(nodes << " nodes: " << crowd.cost().messages << " messages, " << crowd.cost().bytes << " bytes, "
               << crowd.cost().deaths_told << " of deaths; " << times);
    return crowd.cost();
}

}  // namespace

TEST_CASE("a hundred, a thousand and ten thousand nodes that come and go cost as much each") {
    std::optional<double> messages_each, bytes_each;
    for (const int nodes : {100, 1'000, 10'000}) {
        if (kIsSanitized && nodes > 1'000) break;  // What it costs, the plain build says.
        const Cost cost = come_and_go(nodes);
        const auto count = static_cast<double>(nodes);
        const double messages = static_cast<double>(cost.messages - cost.deaths_told) / count;
        const double bytes = static_cast<double>(cost.bytes) / count;
        CHECK(cost.deaths_told <= static_cast<std::size_t>(nodes) * kMaxMembersListed);
        CHECK(messages < 1.1 * messages_each.value_or(messages));
        CHECK(bytes < 1.2 * bytes_each.value_or(bytes));
        messages_each = messages;
        bytes_each = bytes;
    }
}

}  // namespace ddprun
