#include "launcher/view/routes.hpp"

#include <fmt/core.h>

#include "launcher/harmless_text.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/job/exit_status.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace json = boost::json;

constexpr std::string_view kSignalPath = "/signal";
constexpr std::string_view kNameQuery = "name=";
constexpr std::size_t kMaxAnswerDepth = 8;

struct EffectRules : JsonRules {
    static std::string text(const std::string& text, std::size_t) { return valid_utf8(text); }
};

std::string line_of(const SignalEffect& effect) {
    return json::serialize(json_of<EffectRules>(effect)) + "\n";
}

std::string error_line(std::string_view why) {
    return json::serialize(json::object{{"error", valid_utf8(std::string(why))}}) + "\n";
}

void answer_status(std::string_view, const ViewSource& source, const ViewReply& reply) {
    source.job([reply](const JobView& view) { reply({.text = to_json(view) + "\n"}); });
}

void answer_health(std::string_view, const ViewSource& source, const ViewReply& reply) {
    reply({.text = health_text(source.status())});
}

void answer_signal(std::string_view query, const ViewSource& source, const ViewReply& reply) {
    const std::string name(query.starts_with(kNameQuery) ? query.substr(kNameQuery.size()) : "");
    const auto signal = parse_signal(name);
    if (!signal)
        return reply(
            {.status = kHttpBadRequest, .text = error_line("no such signal: '" + harmless_line(name) + "'")});
    const SignalEffect effect = source.effect_of(*signal);
    if (!effect.refusal.empty()) return reply({.status = kHttpConflict, .text = line_of(effect)});
    reply({.text = line_of(effect), .signal = *signal});
}

// An empty path is every path.
struct Route {
    Verb verb;
    std::string_view path;
    Caller caller;
    void (*answer)(std::string_view query, const ViewSource&, const ViewReply&);
};

constexpr Route kRoutes[] = {
    {Verb::get, kStatusTarget, Caller::own_user, answer_status},
    {Verb::post, kSignalPath, Caller::own_user, answer_signal},
    {Verb::get, "", Caller::anybody, answer_health},
};

}  // namespace

void answer_to(const ViewRequest& request, const ViewSource& source, const ViewReply& reply) {
    const std::string_view target = request.target;
    const std::string_view path = target.substr(0, target.find('?'));
    const std::string_view query = target.substr(std::min(target.size(), path.size() + 1));
    ViewAnswer none{.status = kHttpNotFound,
                    .text = error_line("no such path: '" + harmless_line(std::string(path)) + "'")};
    for (const Route& route : kRoutes) {
        if (route.caller != request.caller || (!route.path.empty() && route.path != path)) continue;
        if (route.verb == request.verb) return route.answer(query, source, reply);
        none = {.status = kHttpWrongVerb, .allowed = route.verb == Verb::get ? "GET, HEAD" : "POST"};
    }
    reply(std::move(none));
}

std::string signal_target(int signal) {
    return fmt::format("{}?{}{}", kSignalPath, kNameQuery,
                       signal_name(signal).value_or(std::to_string(signal)));
}

std::optional<SignalEffect> parse_signal_effect(std::string_view text) {
    const auto object = parse_json_object(text, kMaxAnswerDepth);
    SignalEffect effect;
    if (!object || !from_json<EffectRules>(*object, effect)) return std::nullopt;
    return effect;
}

std::string health_text(const AgentStatus& status) {
    // Before the first round there is no job yet.
    const auto of_round = [&status](int number) {
        return status.job_id.empty() ? json::value(nullptr) : json::value(number);
    };
    const json::object text{{"status", "alive"},
                            {"state", status.state},
                            {"round", of_round(status.round)},
                            {"restart_count", of_round(status.restart_count)},
                            {"world_size", of_round(status.world_size)},
                            {"workers", status.workers.size()}};
    return json::serialize(text) + "\n";
}

}  // namespace launch
}  // namespace ddprun
