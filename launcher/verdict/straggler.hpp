// WaitHistory is what the latest looks say of a job that gets on: which ranks wait how much of their time,
// and whether that is for the same few (a straggler). Pure.
//
// A look counts for all ranks that live; with other ranks than before the history begins anew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/verdict/observation.hpp"
#include "launcher/verdict/verdict.hpp"

namespace ddprun {
inline namespace launch {

class WaitHistory {
  public:
    static constexpr std::size_t kLeastLooks = 8;
    static constexpr std::size_t kMostLooks = 32;  // older ones are forgotten
    // kWaitsLittle, kWaitsMuch: in percent of the looks, of a straggler at most, and of all others at least.
    static constexpr std::size_t kWaitsLittle = 30;
    static constexpr std::size_t kWaitsMuch = 60;

    void add(const std::vector<Observation>& observations);

    // Returns the share of looks in which the rank waited for others; nothing before kLeastLooks.
    std::optional<double> waiting_ratio(int rank) const;

    // Returns a verdict of kind straggler; nothing if no minority holds the others, or if one of these does
    // not get on in between. Asked only of a job that has got on before.
    std::optional<HangVerdict> straggler() const;

  private:
    struct Moment {
        bool waits = false;
        std::uint64_t call = 0;  // 0: not known
        std::string doing;
        bool operator==(const Moment&) const = default;
    };

    std::size_t percent_of(int rank) const;
    bool gets_on(int rank) const;

    std::deque<std::map<int, Moment>> looks_;
    std::map<int, std::string> hosts_;
};

}  // namespace launch
}  // namespace ddprun
