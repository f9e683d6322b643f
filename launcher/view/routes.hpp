// answer_to() says what a launcher answers over HTTP, and to which callers, by a table of routes. http_server
// carries the bytes; here is what they mean. Pure.
//
//   GET  /status               the job's own user   JobView, as JSON: all nodes of the job
//   GET  /output?rank=R        the job's own user   StreamLines, as JSON: what the workers of all nodes have
//                                                   printed, without rank all of them; &follow=1: up to
//                                                   the job's end
//   GET  /events               the job's own user   the same of the lines of --events; &follow=1
//   GET  /stacks?rank=R        the job's own user   what each rank does, as JSON (schema 1), without rank all
//                                                   of them; &threads=1: of all threads; &native=1; &text=1:
//                                                   as text for people
//   POST /signal?name=SIGTERM  the job's own user   SignalEffect, as JSON; with 409 if it is refused
//   GET  any path              the health port      health_text()
//
// HEAD is answered as GET is, without the text.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/output/kept_output.hpp"
#include "launcher/verdict/progress_clock.hpp"
#include "launcher/view/job_view.hpp"
#include "rendezvous/codec/description.hpp"
#include "rendezvous/job/agent_status.hpp"

namespace ddprun {
inline namespace launch {

// Caller says by which way a request has come.
enum class Caller {
    own_user,  // the job's socket, which is closed to other users
    anybody,   // the health port
};

enum class Verb { get, post, other };

struct ViewRequest {
    Caller caller = Caller::anybody;
    Verb verb = Verb::other;
    std::string target;  // as it came: a path, and a query behind '?'
};

// SignalEffect: what a signal to the launcher does.
struct SignalEffect {
    std::string refusal;    // why it does nothing; empty: it is sent
    bool ends_job = false;  // other signals only reach the workers
    bool operator==(const SignalEffect&) const = default;
};
BOOST_DESCRIBE_STRUCT(SignalEffect, (), (refusal, ends_job))

// StreamTerms: what a client wants to read. `kind`: kOutputQuestion or kEventsQuestion.
struct StreamTerms {
    std::string kind;
    std::optional<int> rank;  // none: all
    bool follows = false;     // what comes, too, to the job's end
    bool operator==(const StreamTerms&) const = default;
};

// StreamLine: what a client is told in one piece.
struct StreamLine {
    static constexpr int kJob = -1;

    int node = kJob;  // group rank; kJob: of the job as a whole
    std::string host = {};
    std::string trouble = {};     // why the node tells nothing (more) …
    std::string refusal = {};     // … or why the launcher does not, which has nothing else to say
    std::string log_folder = {};  // where the node has what goes to files
    std::vector<KeptBlock> blocks = {};
    bool has_caught_up = false;         // all that there was has been told
    std::optional<int> exit_code = {};  // the job's, which has ended
    bool operator==(const StreamLine&) const = default;
};
BOOST_DESCRIBE_STRUCT(StreamLine, (),
                      (node, host, trouble, refusal, log_folder, blocks, has_caught_up, exit_code))

// ViewStream: an answer that goes on, for one client. On the thread of the server's executor.
class ViewStream {
  public:
    virtual ~ViewStream() = default;
    // Returns what has come since, in whole lines; empty: nothing.
    virtual std::string take() = 0;
    // Tells that nothing comes any more but what take() still returns.
    virtual bool is_over() const = 0;
    // Has `more` called once when there is something again, or the stream is over; called when there is
    // nothing. The call may come from deep inside what the launcher does.
    virtual void await(std::function<void()> more) = 0;
    // Tells that the client is gone.
    virtual void close() = 0;
};

// StacksTerms: which ranks are to be looked at, and how closely.
struct StacksTerms {
    std::optional<int> rank;  // none: all
    bool threads = false;     // all threads of each
    bool native = false;      // native frames beside Python's
    bool as_text = false;     // in place of JSON
    bool operator==(const StacksTerms&) const = default;
};

// StacksAnswer: what was seen, or why there was no look.
struct StacksAnswer {
    std::string refusal;  // empty: there is a text
    std::string text;
};

// QuietAnswer: what a node says to kQuietQuestion.
struct QuietAnswer {
    std::int64_t quiet_ms = 0;         // since the last sign of the node's ranks …
    std::optional<ProgressSign> sign;  // … which was this; nothing: there was none in the round
    bool operator==(const QuietAnswer&) const = default;
};
BOOST_DESCRIBE_STRUCT(QuietAnswer, (), (quiet_ms, sign))

// ViewSource: what answers are made of; called on the thread of the server's executor.
struct ViewSource {
    std::function<AgentStatus()> status;  // of this node
    // Gathers what all nodes say, and calls `done` once, at once or later; never where the agent ends before.
    std::function<void(std::function<void(const JobView&)> done)> job = {};
    std::function<std::shared_ptr<ViewStream>(const StreamTerms&)> stream = {};
    // Looks at the ranks, and calls `done` once, at once or later; never where the agent ends before.
    std::function<void(const StacksTerms& terms, std::function<void(StacksAnswer)> done)> stacks = {};
    std::function<SignalEffect(int)> effect_of = {};
    // deliver is called when the answer is on its way, if the signal was not refused.
    std::function<void(int)> deliver = {};
};

inline constexpr unsigned kHttpOk = 200;
inline constexpr unsigned kHttpBadRequest = 400;
inline constexpr unsigned kHttpNotFound = 404;
inline constexpr unsigned kHttpWrongVerb = 405;
inline constexpr unsigned kHttpConflict = 409;
inline constexpr unsigned kHttpUnavailable = 503;

struct ViewAnswer {
    unsigned status = kHttpOk;
    std::string text;     // JSON and a newline; empty where the status says all
    std::string allowed;  // the verbs that this path has, where the request's is not among them
    int signal = 0;       // to be delivered when the answer is on its way; 0: none
    std::shared_ptr<ViewStream> stream = {};  // in place of the text
};

using ViewReply = std::function<void(ViewAnswer)>;
// Calls `reply` once: before it returns, or later on the same thread; never where the agent ends before.
void answer_to(const ViewRequest& request, const ViewSource& source, const ViewReply& reply);

// --- for those who ask

inline constexpr std::string_view kStatusTarget = "/status";
std::string signal_target(int signal);
std::string stream_target(const StreamTerms& terms);
std::string stacks_target(const StacksTerms& terms);

// kMaxAnswer: the longest answer; a longer one is no answer. A JobView has some 400 bytes for each worker of
// the job.
inline constexpr std::size_t kMaxAnswer = 64 << 20;

// Returns nothing for a text that is no such answer.
std::optional<SignalEffect> parse_signal_effect(std::string_view text);
std::optional<StreamLine> parse_stream_line(std::string_view text);
// Returns why the launcher refuses a question, of the text of its answer.
std::optional<std::string> refusal_in(std::string_view text);
std::string to_json(const StreamLine& line);

// --- for the launchers of other nodes

// Writes a question as the text of a Question, and a piece as that of an Answer.
std::string to_text(const StacksTerms& terms);
std::optional<StacksTerms> parse_stacks_terms(std::string_view text);
std::string to_text(const KeptQuestion& question);
std::optional<KeptQuestion> parse_kept_question(std::string_view text);
std::string to_json(const KeptPiece& piece);
std::string to_json(const QuietAnswer& answer);
std::optional<QuietAnswer> parse_quiet_answer(std::string_view text);
std::optional<KeptPiece> parse_kept_piece(std::string_view text);

// Returns what every caller at the health port may read, so nothing that is a user's alone: one JSON object
// and a newline.
std::string health_text(const AgentStatus& status);

}  // namespace launch
}  // namespace ddprun
