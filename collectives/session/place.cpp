#include "collectives/session/place.hpp"

#include <fmt/core.h>

#include <optional>

#include "collectives/call/checked_task.hpp"
#include "collectives/nccl/nccl_join.hpp"
#include "collectives/session/session.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace detail {
namespace {

constexpr std::string_view kTcpScheme = "tcp://";
constexpr std::string_view kFileScheme = "file://";

}  // namespace

Meeting parse_url(const std::string& url) {
    if (url.rfind(kTcpScheme, 0) == 0) {
        auto endpoint = parse_endpoint(std::string_view(url).substr(kTcpScheme.size()), 0);
        if (endpoint && endpoint->port != 0) return TcpMeeting{std::move(*endpoint), true};
    } else if (url.rfind(kFileScheme, 0) == 0 && url.size() > kFileScheme.size()) {
        return FileMeeting{url.substr(kFileScheme.size())};
    }
    refuse("join", fmt::format("'{}' is neither tcp://host:port nor file://path", url));
}

Transport read_transport(const Environment& environment) {
    const std::string* text = find_variable(environment, "DDPRUN_TRANSPORT");
    if (text == nullptr || *text == "auto") return Transport::automatic;
    if (*text == "tcp") return Transport::tcp;
    refuse("join", fmt::format("DDPRUN_TRANSPORT='{}' is neither auto nor tcp", *text));
}

std::chrono::milliseconds read_notice(const Environment& environment) {
    const std::string* text = find_variable(environment, "DDPRUN_NOTICE");
    if (text == nullptr) return {};
    if (const auto seconds = whole_number<int>(*text, 0)) return std::chrono::seconds(*seconds);
    refuse("join", fmt::format("DDPRUN_NOTICE='{}' is no number of seconds", *text));
}

std::optional<LifeSlot> read_life_slot(const Environment& environment) {
    const std::string* text = find_variable(environment, kLifeVariable);
    return text == nullptr ? std::nullopt : parse_life_slot(*text);
}

Place read_place(const Environment& environment, const CommunicatorOptions& options, int local_rank) {
    Place place;
    place.transport = read_transport(environment);
    place.host = read_host_settings(environment);
    place.nccl = read_nccl_settings(environment, options, local_rank);
    place.life = read_life_slot(environment);
    place.mesh_key = read_mesh_key(environment);
    return place;
}

}  // namespace detail
}  // namespace ddprun
