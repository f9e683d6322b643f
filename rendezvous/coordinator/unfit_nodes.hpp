// UnfitNodes: those that looked at themselves before the job (--check) and said that they are not fit for it. They take no
// part, and nobody waits for them. Pure; the Coordinator asks.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "rendezvous/control/control_message.hpp"

namespace ddprun::inline job {

class UnfitNodes {
  public:
    // A node may be fit when it comes again. The one that hosts cannot be left out.
    void learn(const Hello& hello, bool is_host);

    // How many will not come.
    int left_out() const { return static_cast<int>(nodes_.size()); }
    bool has_any() const { return host_.has_value() || !nodes_.empty(); }

    // Why there is no job: too few can come, or the host is one of them.
    std::optional<Refused> fault(int nnodes, int least) const;

    // To an agent that says so, which was told of it by others for the user of node 0.
    static Refused refusal(const Hello& hello);

  private:
    struct UnfitNode {
        std::string name;
        std::string why;
    };
    // The key is its number; for one without it its host and process.
    std::map<std::string, UnfitNode> nodes_;
    std::optional<UnfitNode> host_;
};

}  // namespace ddprun::inline job
