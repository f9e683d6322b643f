// JobStreams: what this launcher tells clients that follow the job (JobStream), and other nodes for theirs.
//
// Owned by a feature, on the agent's thread. Without a client, here or on another node, there is neither work
// nor a timer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/feature.hpp"
#include "launcher/output/happenings.hpp"
#include "launcher/output/kept_readers.hpp"
#include "launcher/view/job_stream.hpp"
#include "launcher/view/node_questions.hpp"

namespace ddprun {
inline namespace launch {

class JobStreams {
  public:
    // kMostServed: Questions of other nodes that are answered at one time.
    static constexpr int kMostServed = 256;

    JobStreams(AgentControls& agent, NodeQuestions& questions);

    std::shared_ptr<ViewStream> open(const StreamTerms& terms);

    // Answers another node's Question, at once or later; false: it is of another kind.
    bool answer(const Question& question, const SayAnswer& say);

    // Takes what the coordinator says, and what the agent's features are told.
    void hear(const ControlMessage& message);
    void learn(const AgentNews& news);
    // Notes that there may be an event more.
    void happened();

    // Ends all streams; `exit_code`: the job's, if it has come to its end.
    void end(std::optional<int> exit_code);

  private:
    void read(const std::string& kind, KeptQuestion question, const KeptReaders::Done& done);
    void ask(const StreamTerms& terms, int node, const KeptQuestion& question,
             const std::function<void(HeardPiece)>& hear);
    std::vector<int> nodes_of(const StreamTerms& terms) const;
    std::string refusal_of(const StreamTerms& terms) const;
    bool has_rank(int rank) const;
    bool has_key() const { return agent_.options().key.has_value(); }

    AgentControls& agent_;
    NodeQuestions& questions_;
    const std::string launcher_;  // names the counts of what is kept here
    Happenings happenings_;
    KeptReaders event_readers_;
    std::vector<std::weak_ptr<JobStream>> streams_;
    int served_ = 0;
    int led_ = 0;  // how often another coordinator has taken over
    bool is_looking_ = false;
};

}  // namespace launch
}  // namespace ddprun
