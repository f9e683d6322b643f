#include "launcher/watch/job_looks.hpp"

#include <fmt/core.h>

#include <boost/asio/post.hpp>
#include <boost/json/serialize.hpp>
#include <system_error>
#include <utility>
#include <variant>

#include "launcher/verdict/judge.hpp"
#include "launcher/verdict/observation_text.hpp"
#include "launcher/verdict/stack_groups.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
inline namespace launch {
namespace {

Observation unread_rank(int rank, const NodeAnswer& node, const std::string& why) {
    Observation seen;
    seen.rank = rank;
    seen.node = node.node;
    seen.host = node.host;
    seen.why_unreadable = why;
    return seen;
}

// Returns the node's ranks, with what it has said of them, or why it has not.
std::vector<Observation> observations_of(const NodeAnswer& node) {
    std::string why = node.trouble;
    if (why.empty()) {
        if (auto seen = parse_observations(node.text)) return *std::move(seen);
        why = "its launcher's answer is not understood";
    }
    std::vector<Observation> unread;
    for (int rank = node.first_rank; rank < node.first_rank + node.ranks; ++rank)
        unread.push_back(unread_rank(rank, node, why));
    return unread;
}

bool has_rank(const AgentStatus& node, int rank) {
    return rank >= node.first_rank && rank - node.first_rank < static_cast<int>(node.workers.size());
}

// Returns for each rank of which nothing was seen why that is so.
std::vector<Observation> with_missing(std::vector<Observation> seen, const AgentStatus& own,
                                      const std::string& why) {
    std::vector<bool> is_there(static_cast<std::size_t>(own.world_size));
    for (const Observation& one : seen) {
        if (one.rank < own.world_size) is_there[static_cast<std::size_t>(one.rank)] = true;
    }
    for (int rank = 0; rank < own.world_size; ++rank) {
        if (!is_there[static_cast<std::size_t>(rank)] && !has_rank(own, rank))
            seen.push_back(unread_rank(rank, {}, why));
    }
    return seen;
}

}  // namespace

JobLooks::~JobLooks() {
    is_cancelled_ = true;
    if (looker_.joinable()) looker_.join();
}

void JobLooks::look(const StacksTerms& terms, Seen seen) {
    const AgentStatus own = agent_.status();
    const bool is_elsewhere = terms.rank && !has_rank(own, *terms.rank);
    if (is_elsewhere || waiting_.size() == kMostWaiting) return seen({});
    waiting_.push_back({terms, std::move(seen)});
    if (waiting_.size() == 1) start_next();
}

void JobLooks::start_next() try {
    LookScope scope;
    scope.node = agent_.status();
    const StacksTerms& terms = waiting_.front().terms;
    if (terms.rank) scope.ranks.push_back(*terms.rank);
    scope.threads = terms.threads;
    scope.native = terms.native;
    scope.own = known_.own;
    if (looker_.joinable()) looker_.join();
    looker_ = start_without_signals([this, scope = std::move(scope), executor = agent_.executor(),
                                     finish = alive_.guard([this](std::vector<Observation> found) {
                                         finish_first(std::move(found));
                                     })]() mutable {
        auto found = look_at_ranks(scope, is_cancelled_);
        boost::asio::post(executor, [finish = std::move(finish), found = std::move(found)]() mutable {
            finish(std::move(found));
        });
    });
} catch (const std::system_error& error) {
    boost::asio::post(agent_.executor(), alive_.guard([this, why = std::string(error.what())] {
        const AgentStatus own = agent_.status();
        std::vector<Observation> unread;
        for (const WorkerStatus& worker : own.workers)
            unread.push_back(unread_rank(worker.rank, {}, "the launcher cannot start a thread: " + why));
        finish_first(std::move(unread));
    }));
}

void JobLooks::finish_first(std::vector<Observation> found) {
    const Seen seen = std::move(waiting_.front().seen);
    waiting_.pop_front();
    if (!waiting_.empty()) start_next();
    seen(std::move(found));
}

void JobLooks::ask_others(const StacksTerms& terms, const Seen& seen) {
    const AgentStatus own = agent_.status();
    if (own.group_world_size == 1 || (terms.rank && has_rank(own, *terms.rank))) return seen({});
    if (!agent_.options().key) return seen(with_missing({}, own, kNoSecret));
    if (terms.rank) {
        Question asked{.kind = std::string(kStacksQuestion), .text = to_text(terms)};
        asked.rank = *terms.rank;
        return questions_.ask_one(std::move(asked), {}, [seen, rank = *terms.rank](const NodeAnswer& node) {
            auto found = observations_of(node);
            std::erase_if(found, [rank](const Observation& one) { return one.rank != rank; });
            if (found.empty()) found.push_back(unread_rank(rank, node, node.trouble));
            seen(std::move(found));
        });
    }
    questions_.ask(std::string(kStacksQuestion), to_text(terms),
                   [seen, own](const std::vector<NodeAnswer>& nodes, const std::string& why_none) {
                       std::vector<Observation> found;
                       for (const NodeAnswer& node : nodes) {
                           for (Observation& one : observations_of(node)) found.push_back(std::move(one));
                       }
                       seen(with_missing(std::move(found), own,
                                         why_none.empty() ? "its launcher is not connected" : why_none));
                   });
}

std::string JobLooks::refusal_of(const StacksTerms& terms) const {
    const int ranks = agent_.status().world_size;
    if (ranks == 0) return "no worker was started yet";
    if (terms.rank && *terms.rank >= ranks) return fmt::format("the job has {} ranks", ranks);
    return {};
}

void JobLooks::take(const StacksTerms& terms, const std::string& job_id,
                    std::function<void(StacksAnswer)> done) {
    if (std::string refusal = refusal_of(terms); !refusal.empty()) return done({std::move(refusal), {}});
    StacksTaking taking{.id = job_id, .taken_unix_ms = unix_time_now_ms()};
    taking.ranks_asked = terms.rank ? 1 : agent_.status().world_size;
    taking.threads = terms.threads;
    taking.native = terms.native;
    observe(terms,
            [this, taking, terms, done = std::move(done)](const std::vector<Observation>& seen) mutable {
                const std::int64_t now = unix_time_now_ms();
                taking.took_ms = now - taking.taken_unix_ms;
                taking.quiet_since_unix_ms = known_.quiet_since_unix_ms;
                JobMoment moment;
                if (known_.quiet_since_unix_ms)
                    moment.quiet = std::chrono::milliseconds(now - *known_.quiet_since_unix_ms);
                // One rank alone says nothing of what the others do.
                const HangVerdict verdict = terms.rank ? HangVerdict{} : judge(seen, moment);
                done({{},
                      terms.as_text ? stacks_text(taking, seen, verdict)
                                    : boost::json::serialize(stacks_json(taking, seen, verdict)) + "\n"});
            });
}

void JobLooks::observe(const StacksTerms& terms, Seen done) {
    // Gathering: what the two sides have seen; the second one to come tells it.
    struct Gathering {
        std::vector<Observation> seen;
        int open = 2;
        Seen done;
    };
    const auto gathering = std::make_shared<Gathering>();
    gathering->done = std::move(done);
    const Seen seen = [gathering](std::vector<Observation> found) {
        for (Observation& one : found) gathering->seen.push_back(std::move(one));
        if (--gathering->open == 0) gathering->done(std::move(gathering->seen));
    };
    ask_others(terms, seen);
    look(terms, seen);
}

bool JobLooks::answer(const Question& question, const SayAnswer& say) {
    if (question.kind != kStacksQuestion) return false;
    const auto terms = parse_stacks_terms(question.text);
    if (!terms) {
        say({.trouble = "it does not understand the question"});
        return true;
    }
    look(*terms, [this, say, led = led_](const std::vector<Observation>& seen) {
        // The numbers of Questions are another coordinator's.
        if (led == led_) say({.text = to_json(seen)});
    });
    return true;
}

void JobLooks::learn(const AgentNews& news) {
    if (std::holds_alternative<LedAgain>(news)) ++led_;
}

}  // namespace launch
}  // namespace ddprun
