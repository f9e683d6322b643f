// GatheredAnswers: what the other nodes of the job have said to one Question, piece by piece. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "rendezvous/control/control_message.hpp"

namespace ddprun {
inline namespace launch {

// NodeAnswer: all that one node has said, or why it has not.
struct NodeAnswer {
    int node = 0;  // group rank
    std::string host;
    std::string text;
    std::string trouble;  // empty: `text` is whole
    int first_rank = 0;   // of the node's workers, as the coordinator says …
    int ranks = 0;        // … and how many there are
    bool operator==(const NodeAnswer&) const = default;
};

class GatheredAnswers {
  public:
    // kMaxBytes: texts of all nodes together, unless another limit is given; a node beyond that has trouble
    // in place of its text.
    static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;

    explicit GatheredAnswers(std::size_t most = kMaxBytes) : most_(most) {}

    void add(const Answer& piece);

    // Tells whether every node that was asked has said its last.
    bool is_complete() const { return is_counted_ && done_ >= asked_; }

    // Returns an entry for each node that has said anything, by number: one that has not come to its last
    // piece has the trouble `unfinished`. What keeps all nodes from answering stands in `refusal`.
    std::vector<NodeAnswer> take(const std::string& unfinished);
    const std::string& refusal() const { return refusal_; }

  private:
    struct Entry {
        NodeAnswer answer;
        bool is_done = false;
    };
    std::map<int, Entry> nodes_;
    std::string refusal_;
    std::size_t most_;
    std::size_t bytes_ = 0;
    int asked_ = 0;
    int done_ = 0;
    bool is_counted_ = false;
};

}  // namespace launch
}  // namespace ddprun
