// JoinStatus: what an agent says while it joins, and when. Pure.
//
// Fed with each failed attempt and each word of the coordinator; returns the line to print, or an empty one.
// Silent during the first moments of a start; then one line for each distinct cause and for each change of
// who is there, and every kReminderPeriod the last of these again. All say how long it has been, and how long it
// may be. On a terminal the same is a passing line, brought up to date every kUpdatePeriod. Times are the caller's.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/net/socket_owner.hpp"

namespace ddprun::inline launch {

struct LaunchOptions;

class JoinStatus {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;
    using Duration = std::chrono::milliseconds;

    static constexpr Duration kReminderPeriod = std::chrono::seconds(30);
    static constexpr Duration kUpdatePeriod = std::chrono::seconds(1);
    // What is said about trouble while an agent joins: not before this time, then on changes.
    static constexpr std::chrono::seconds kFirstTroubleDelay{3};
    // Distinct causes that are printed; a resolver that words each failure anew must not fill the screen.
    static constexpr std::size_t kMaxCauses = 32;

    // Nothing about trouble is said in the first `first_delay`; the agent gives up after `timeout`. `advice` is
    // what a user who waits in vain may have forgotten; it stands in reminders, empty for none.
    JoinStatus(TimePoint start, Duration first_delay, Duration timeout, std::string advice);

    // Nodes are awaited anew, after a round.
    void begin_again(TimePoint now);

    // An attempt to reach the coordinator failed with this cause.
    std::string trouble(const std::string& cause, TimePoint now);

    // Whether trouble is worth a line by now.
    bool speaks(TimePoint now) const { return now >= speaks_from_; }

    // The coordinator says who is there (it has waited before it said so).
    std::string waiting(const Waiting& status, TimePoint now);

    // The job runs without this node, for as long as it will: no timeout is counted, nothing more is said.
    std::string parked(const Parked& status);

    // What the passing line is now; empty: none.
    std::string passing(TimePoint now) const;

    // What the user of this node may have forgotten, or got wrong.
    static std::string advice_to(const LaunchOptions& options);

    // The coordinator, which is here, refused another agent.
    static std::string refused(const PeerRefused& other);

    // Why an agent does not host the rendezvous that would, and what to do, as the end of a line: another process
    // holds its port, as far as that can be seen.
    static std::string port_taken(std::uint16_t port, const std::optional<PortOwner>& holder);

    // The agent has given up, for this cause.
    Refused given_up(const std::string& cause) const;

    // There is no host for this agent, as the election says.
    static Refused not_elected(const std::string& why);

    // The coordinator that this agent hosts cannot go on.
    static Refused host_failed(const std::string& what);

    // When the next reminder is due, and its line; without any news yet there is none.
    TimePoint reminder_due() const { return reminder_due_; }
    std::string remind(TimePoint now);

  private:
    std::string time_text(TimePoint::duration age) const;

    TimePoint start_;
    TimePoint speaks_from_;
    TimePoint reminder_due_;
    Duration timeout_;
    std::string advice_;
    std::string last_line_;  // said or not
    std::set<std::string> causes_;
};

}  // namespace ddprun::inline launch
