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

// Question: what one agent asks all others. The coordinator passes a Question to each agent but the one that
// asks, and their Answers back, and reads neither.
struct Question {
    std::uint64_t id = 0;  // unique for the sender
    std::string kind;      // kStatusQuestion, or another that a feature of the agents knows
    std::string text;      // what the kind needs beside its name
};
BOOST_DESCRIBE_STRUCT(Question, (), (id, kind, text))

// kStatusQuestion: the kind of Question that is answered by the node's AgentStatus as JSON.
inline constexpr std::string_view kStatusQuestion = "status";

// Answer: what one node says to a Question, in one piece or in several. The coordinator fills in `id`,
// `node`, `host` and `asked` when it passes an Answer on, and says one of its own for a node
// that was lost, and, with kNoNode, where no node was asked.
struct Answer {
    static constexpr int kNoNode = -1;

    std::uint64_t id = 0;  // the Question's, for the agent that is told
    int node = kNoNode;    // group rank
    std::string host;
    int asked = 0;        // how many nodes answer, all told
    bool is_last = true;  // of the node's pieces
    std::string text;
    std::string trouble;  // why there is no text; empty: there is
};
BOOST_DESCRIBE_STRUCT(Answer, (), (id, node, host, asked, is_last, text, trouble))
// kMaxAnswerPiece: the longest text of one Answer; every byte escaped, it fits a frame.
inline constexpr std::size_t kMaxAnswerPiece = 64 * 1024;
constexpr std::size_t limit_of(Of<&Answer::host>) { return kMaxHostText; }
constexpr std::size_t limit_of(Of<&Answer::text>) { return kMaxAnswerPiece; }
constexpr NumberRange range_of(Of<&Answer::node>) { return {Answer::kNoNode, kNodeRange.most}; }
constexpr NumberRange range_of(Of<&Answer::asked>) { return kNodeRange; }

}  // namespace job
}  // namespace ddprun
