// AgentWatcher: is told what becomes of an agent, and may ask and signal it.
//
// Everything is called on the agent's thread, from inside its run(). The watcher outlives the agent; the
// controls may be used from handlers of the executor only.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <optional>
#include <string>

#include "launcher/report/result_file.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/job/agent_status.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun {

struct AgentControls {
    std::function<AgentStatus()> status;
    std::function<Endpoint()> place;  // of the coordinator, with the port where it has one by now
    // As if the launcher had been sent this signal; only for signals that it handles.
    std::function<void(int)> signal;
};

class AgentWatcher {
  public:
    virtual ~AgentWatcher() = default;

    // The agent begins; nothing has been started.
    virtual void began(const boost::asio::any_io_executor& executor, AgentControls controls) = 0;

    // All workers of this node were started; once in every round.
    virtual void workers_run(const RoundReady& place) = 0;

    // The job is over here. Returns one line about trouble, if there was any, which is shown.
    virtual std::optional<std::string> ended(const JobResult& result) = 0;

    // Whether that result is to have the ends of all the job's ranks.
    virtual bool wants_result() const { return true; }
};

inline bool wants_result(const AgentWatcher* watcher) {
    return watcher != nullptr && watcher->wants_result();
}

}  // namespace ddprun
