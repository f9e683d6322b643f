// Question and Answer: what the agents of a job ask each other, through the coordinator. Plain values, two of
// the messages of control_message.hpp; both sides say both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "rendezvous/codec/description.hpp"
#include "rendezvous/job/failure.hpp"
#include "rendezvous/job/number_limits.hpp"

namespace ddprun {
inline namespace job {

// Question: what one agent asks all others, or one of them. The coordinator passes a Question to each agent
// that is meant but the one that asks, and their Answers back, and reads of both only where they go.
struct Question {
    static constexpr int kAny = -1;

    std::uint64_t id = 0;  // unique for the sender
    std::string kind;      // one of the names below, or another that a feature of the agents knows
    std::string text;      // what the kind needs beside its name
    int node = kAny;       // group rank of the node that is asked alone
    int rank = kAny;       // asks the node alone that has this rank
};
BOOST_DESCRIBE_STRUCT(Question, (), (id, kind, text, node, rank))
constexpr NumberRange range_of(Of<&Question::node>) { return kNodeOrNoneRange; }
constexpr NumberRange range_of(Of<&Question::rank>) { return kRankOrNoneRange; }

// kStatusQuestion: the kind of Question that is answered by the node's AgentStatus as JSON; kOutputQuestion
// and kEventsQuestion: those that are answered by a KeptPiece (launcher/output/), of what the node's workers
// have printed and of what has happened there; kStacksQuestion: of what they do
// (launcher/watch/job_looks); kQuietQuestion: of how long they have not got on (node_progress).
inline constexpr std::string_view kStatusQuestion = "status";
inline constexpr std::string_view kOutputQuestion = "output";
inline constexpr std::string_view kEventsQuestion = "events";
inline constexpr std::string_view kStacksQuestion = "stacks";
inline constexpr std::string_view kQuietQuestion = "quiet";

// Answer: what one node says to a Question, in one piece or in several. The coordinator fills in all from
// `id` to `asked` when it passes an Answer on, and says one of its own for a node that was lost, and, with
// kNoNode, where no node was asked.
struct Answer {
    static constexpr int kNoNode = -1;

    std::uint64_t id = 0;  // the Question's, for the agent that is told
    int node = kNoNode;    // group rank
    std::string host;
    int first_rank = 0;   // of the node's workers in this round …
    int ranks = 0;        // … and how many there are
    int asked = 0;        // how many nodes answer, all told
    bool is_last = true;  // of the node's pieces
    std::string text;
    std::string trouble;  // why there is no text; empty: there is
};
BOOST_DESCRIBE_STRUCT(Answer, (), (id, node, host, first_rank, ranks, asked, is_last, text, trouble))
// kMaxAnswerPiece: the longest text of one Answer; every byte escaped, it fits a frame.
inline constexpr std::size_t kMaxAnswerPiece = 64 * 1024;
constexpr std::size_t limit_of(Of<&Answer::host>) { return kMaxHostText; }
constexpr std::size_t limit_of(Of<&Answer::text>) { return kMaxAnswerPiece; }
constexpr NumberRange range_of(Of<&Answer::node>) { return {Answer::kNoNode, kNodeRange.most}; }
constexpr NumberRange range_of(Of<&Answer::first_rank>) { return kRankRange; }
constexpr NumberRange range_of(Of<&Answer::ranks>) { return {0, kMaxWorkersPerNode}; }
constexpr NumberRange range_of(Of<&Answer::asked>) { return kNodeRange; }

}  // namespace job
}  // namespace ddprun
