#include "launcher/view/routes.hpp"

#include <fmt/core.h>

#include "launcher/harmless_text.hpp"
#include "launcher/view/view_json.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/job/number_limits.hpp"
#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace json = boost::json;

constexpr std::string_view kSignalPath = "/signal";
constexpr std::string_view kOutputPath = "/output";
constexpr std::string_view kEventsPath = "/events";
constexpr std::string_view kStacksPath = "/stacks";
constexpr std::size_t kMaxLauncherName = 64;
constexpr std::string_view kNameQuery = "name=";

template <class T>
std::string line_of(const T& answer) {
    return json::serialize(json_of<ViewRules>(answer)) + "\n";
}

// Returns false for a part with another name or a value that is no number.
using TakePart = std::function<bool(std::string_view name, std::string_view value)>;
bool take_parts(std::string_view query, const TakePart& take) {
    for (const std::string_view part : split_at(query, '&')) {
        const std::size_t end = std::min(part.find('='), part.size());
        if (!part.empty() && !take(part.substr(0, end), part.substr(std::min(end + 1, part.size()))))
            return false;
    }
    return true;
}

bool take_rank(std::string_view value, std::optional<int>& rank) {
    const auto number = whole_number<int>(value);
    if (!number || !is_within(*number, kRankRange)) return false;
    rank = *number;
    return true;
}

bool take_flag(std::string_view value, bool& flag) {
    flag = value == "1";
    return flag || value == "0";
}

std::optional<StreamTerms> parse_terms(std::string_view kind, std::string_view query) {
    StreamTerms terms{.kind = std::string(kind)};
    const bool is_good = take_parts(query, [&](std::string_view name, std::string_view value) {
        if (name == "rank" && kind == kOutputQuestion) return take_rank(value, terms.rank);
        return name == "follow" && take_flag(value, terms.follows);
    });
    return is_good ? std::optional(terms) : std::nullopt;
}

std::string error_line(std::string_view why) {
    return json::serialize(json::object{{"error", valid_utf8(std::string(why))}}) + "\n";
}

void answer_status(std::string_view, const ViewSource& source, const ViewReply& reply) {
    source.job([reply](const JobView& view) { reply({.text = to_json(view) + "\n"}); });
}

ViewAnswer bad_query(std::string_view query) {
    return {.status = kHttpBadRequest,
            .text = error_line("no such query: '" + harmless_line(std::string(query)) + "'")};
}

void answer_stream(std::string_view kind, std::string_view query, const ViewSource& source,
                   const ViewReply& reply) {
    const auto terms = parse_terms(kind, query);
    if (!terms) return reply(bad_query(query));
    reply({.stream = source.stream(*terms)});
}

void answer_output(std::string_view query, const ViewSource& source, const ViewReply& reply) {
    answer_stream(kOutputQuestion, query, source, reply);
}

void answer_events(std::string_view query, const ViewSource& source, const ViewReply& reply) {
    answer_stream(kEventsQuestion, query, source, reply);
}

void answer_stacks(std::string_view query, const ViewSource& source, const ViewReply& reply) {
    const auto terms = parse_stacks_terms(query);
    if (!terms) return reply(bad_query(query));
    source.stacks(*terms, [reply](StacksAnswer answer) {
        if (!answer.refusal.empty())
            return reply({.status = kHttpConflict, .text = error_line(answer.refusal)});
        reply({.text = std::move(answer.text)});
    });
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
    {Verb::get, kOutputPath, Caller::own_user, answer_output},
    {Verb::get, kEventsPath, Caller::own_user, answer_events},
    {Verb::get, kStacksPath, Caller::own_user, answer_stacks},
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

std::string stream_target(const StreamTerms& terms) {
    const std::string rank = terms.rank ? fmt::format("&rank={}", *terms.rank) : "";
    return fmt::format("{}?follow={}{}", terms.kind == kEventsQuestion ? kEventsPath : kOutputPath,
                       terms.follows ? 1 : 0, rank);
}

std::string stacks_target(const StacksTerms& terms) {
    return fmt::format("{}?{}", kStacksPath, to_text(terms));
}

std::string to_text(const StacksTerms& terms) {
    const std::string rank = terms.rank ? fmt::format("&rank={}", *terms.rank) : "";
    return fmt::format("threads={:d}&native={:d}&text={:d}{}", terms.threads, terms.native, terms.as_text,
                       rank);
}

std::string to_json(const QuietAnswer& answer) { return boost::json::serialize(json_of<ViewRules>(answer)); }

std::optional<QuietAnswer> parse_quiet_answer(std::string_view text) {
    auto answer = view_from_json<QuietAnswer>(text);
    return answer && answer->quiet_ms >= 0 ? answer : std::nullopt;
}

std::optional<StacksTerms> parse_stacks_terms(std::string_view text) {
    StacksTerms terms;
    const bool is_good = take_parts(text, [&terms](std::string_view name, std::string_view value) {
        if (name == "rank") return take_rank(value, terms.rank);
        if (name == "threads") return take_flag(value, terms.threads);
        if (name == "native") return take_flag(value, terms.native);
        return name == "text" && take_flag(value, terms.as_text);
    });
    return is_good ? std::optional(terms) : std::nullopt;
}

std::string to_text(const KeptQuestion& question) {
    const std::string rank = question.rank ? fmt::format("&rank={}", *question.rank) : "";
    return fmt::format("from={}&wait={}&of={}{}", question.from, question.waits ? 1 : 0, question.launcher,
                       rank);
}

std::optional<KeptQuestion> parse_kept_question(std::string_view text) {
    KeptQuestion question;
    const bool is_good = take_parts(text, [&question](std::string_view name, std::string_view value) {
        const auto position = whole_number<std::uint64_t>(value);
        if (name == "from" && position) question.from = *position;
        if (name == "of" && value.size() <= kMaxLauncherName) question.launcher = value;
        if (name == "rank") return take_rank(value, question.rank);
        if (name == "wait") return take_flag(value, question.waits);
        return (name == "from" && position) || (name == "of" && question.launcher == value);
    });
    return is_good ? std::optional(question) : std::nullopt;
}

std::optional<SignalEffect> parse_signal_effect(std::string_view text) {
    return view_from_json<SignalEffect>(text);
}
std::optional<StreamLine> parse_stream_line(std::string_view text) {
    return view_from_json<StreamLine>(text);
}
std::optional<std::string> refusal_in(std::string_view text) {
    boost::system::error_code error;
    const json::value told = json::parse(text, error);
    const auto* object = error ? nullptr : told.if_object();
    const auto* why = object == nullptr ? nullptr : object->if_contains("error");
    if (why == nullptr || !why->is_string()) return std::nullopt;
    return harmless_line(std::string(why->get_string()));
}

std::string to_json(const StreamLine& line) { return json::serialize(json_of<ViewRules>(line)); }
std::optional<KeptPiece> parse_kept_piece(std::string_view text) { return view_from_json<KeptPiece>(text); }
std::string to_json(const KeptPiece& piece) { return json::serialize(json_of<ViewRules>(piece)); }

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
