#include "launcher/features/job_streams.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <numeric>
#include <utility>
#include <variant>

#include "launcher/output/output_pump.hpp"
#include "launcher/wall_clock.hpp"

namespace ddprun {
inline namespace launch {
JobStreams::JobStreams(AgentControls& agent, NodeQuestions& questions)
    : agent_(agent),
      questions_(questions),
      launcher_(fmt::format("{}-{}", ::getpid(), unix_time_now_ms())),
      event_readers_(
          agent.executor(),
          [this](const KeptQuestion& asked, std::size_t most) { return happenings_.read(asked.from, most); },
          [this] { return happenings_.end(); }) {}

bool JobStreams::has_rank(int rank) const {
    const AgentStatus own = agent_.status();
    return rank >= own.first_rank && rank - own.first_rank < static_cast<int>(own.workers.size());
}

std::string JobStreams::refusal_of(const StreamTerms& terms) const {
    if (!terms.rank || has_rank(*terms.rank)) return {};
    const int ranks = agent_.status().world_size;
    if (*terms.rank >= ranks) return fmt::format("the job has {} ranks", ranks);
    return has_key() ? "" : kNoSecret;
}

std::vector<int> JobStreams::nodes_of(const StreamTerms& terms) const {
    const AgentStatus own = agent_.status();
    if (terms.rank) return {JobStream::kTheRank};
    if (!has_key()) return {own.node};
    std::vector<int> nodes(static_cast<std::size_t>(own.group_world_size));
    std::iota(nodes.begin(), nodes.end(), 0);
    return nodes;
}

std::shared_ptr<ViewStream> JobStreams::open(const StreamTerms& terms) {
    const auto stream = std::make_shared<JobStream>(
        terms,
        [this, terms](int node, const KeptQuestion& question, const auto& hear) {
            ask(terms, node, question, hear);
        },
        [this](std::chrono::milliseconds length, std::function<void()> then) {
            const auto timer = std::make_shared<boost::asio::steady_timer>(agent_.executor(), length);
            timer->async_wait([timer, then = std::move(then)](const boost::system::error_code& cancelled) {
                if (!cancelled) then();
            });
        });
    if (auto refusal = refusal_of(terms); !refusal.empty()) {
        stream->end({.refusal = std::move(refusal)});
        return stream;
    }
    if (!terms.rank && !has_key() && agent_.status().group_world_size > 1)
        stream->tell({.trouble = kNoSecret});
    stream->read(nodes_of(terms));
    std::erase_if(streams_, [](const auto& old) { return old.expired(); });
    streams_.push_back(stream);
    return stream;
}

void JobStreams::ask(const StreamTerms& terms, int node, const KeptQuestion& question,
                     const std::function<void(HeardPiece)>& hear) {
    const AgentStatus own = agent_.status();
    if (node == JobStream::kTheRank ? has_rank(*terms.rank) : node == own.node) {
        NodeAnswer from{.node = own.node, .host = own.host, .text = {}, .trouble = {}};
        from.first_rank = own.first_rank;
        from.ranks = static_cast<int>(own.workers.size());
        return read(terms.kind, question, [from = std::move(from), hear](KeptPiece piece) {
            hear({from, std::move(piece), true});
        });
    }
    Question asked{.kind = terms.kind, .text = to_text(question)};
    (node == JobStream::kTheRank ? asked.rank : asked.node) =
        node == JobStream::kTheRank ? *terms.rank : node;
    questions_.ask_one(std::move(asked),
                       question.waits ? KeptReaders::kLongestWait : decltype(KeptReaders::kLongestWait){},
                       [hear](NodeAnswer answer) {
                           auto piece = parse_kept_piece(std::exchange(answer.text, {}));
                           hear({std::move(answer), std::move(piece)});
                       });
}

void JobStreams::read(const std::string& kind, KeptQuestion question, const KeptReaders::Done& done) {
    if (question.launcher != launcher_) question.from = 0;
    const auto signed_done = [this, done](KeptPiece piece) {
        piece.launcher = launcher_;
        done(std::move(piece));
    };
    if (kind == kOutputQuestion)
        return agent_.pump().read_kept(question, [this, signed_done](KeptPiece piece) {
            piece.log_folder = agent_.pump().log_folder();
            signed_done(std::move(piece));
        });
    // An empty one asks the event log for its lines.
    agent_.tell(EventTold{});
    event_readers_.ask(question, signed_done);
}

bool JobStreams::answer(const Question& question, const SayAnswer& say) {
    if (question.kind != kOutputQuestion && question.kind != kEventsQuestion) return false;
    const auto asked = parse_kept_question(question.text);
    if (!asked || served_ == kMostServed) {
        say({.trouble =
                 asked ? "it has too many questions to answer" : "it does not understand the question"});
        return true;
    }
    ++served_;
    read(question.kind, *asked, [this, say, led = led_](const KeptPiece& piece) {
        --served_;
        // The numbers of Questions are another coordinator's.
        if (led == led_) say({.text = to_json(piece)});
    });
    return true;
}

void JobStreams::hear(const ControlMessage& message) {
    happened();
    if (streams_.empty() || !std::holds_alternative<RoundReady>(message)) return;
    // The agent takes the message after its features.
    boost::asio::post(agent_.executor(), [this] {
        for (const auto& weak : streams_) {
            const auto stream = weak.lock();
            if (stream && !stream->terms().rank) stream->read(nodes_of(stream->terms()));
        }
    });
}

void JobStreams::learn(const AgentNews& news) {
    if (std::holds_alternative<LedAgain>(news)) ++led_;
    if (const auto* event = std::get_if<EventTold>(&news)) {
        happenings_.add(event->lines);
        event_readers_.look();
    } else {
        happened();
    }
}

void JobStreams::happened() {
    if (!event_readers_.is_asked() || std::exchange(is_looking_, true)) return;
    boost::asio::post(agent_.executor(), [this] {
        is_looking_ = false;
        agent_.tell(EventTold{});
    });
}

void JobStreams::end(std::optional<int> exit_code) {
    for (const auto& weak : std::exchange(streams_, {})) {
        if (const auto stream = weak.lock()) stream->end({.exit_code = exit_code});
    }
}

}  // namespace launch
}  // namespace ddprun
