#include "launcher/report/error_file.hpp"

#include <fmt/core.h>

#include <boost/json.hpp>
#include <cerrno>

#include "launcher/harmless_text.hpp"
#include "rendezvous/control/control_wire.hpp"
#include "rendezvous/store/wire.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun::inline launch {
namespace {

namespace json = boost::json;

constexpr std::size_t kBeginningShown = 200;

std::string bounded(std::string_view text) { return cut_middle(text, kMaxControlText); }

std::string text_of(const json::value* value) {
    if (value == nullptr) return {};
    if (const json::string* text = value->if_string()) return bounded(*text);
    return bounded(json::serialize(*value));
}

std::optional<std::int64_t> time_of(const json::value* value) {
    if (value == nullptr) return std::nullopt;
    if (const auto* number = value->if_int64()) return *number;
    if (const json::string* text = value->if_string()) return parse_number(*text);
    return std::nullopt;
}

json::value parse(std::string_view text, json::error_code& error) {
    json::parse_options options;
    options.allow_invalid_utf8 = true;  // of a C program that copies what it was given
    options.max_depth = 64;
    return json::parse(text, error, {}, options);
}

WorkerError unclear(const std::string& why) { return {.message = "its error file " + why}; }

void read_extra(const json::value* extra, WorkerError& error) {
    const json::object* members = extra != nullptr ? extra->if_object() : nullptr;
    if (members == nullptr) return;
    error.traceback = text_of(members->if_contains("py_callstack"));
    error.unix_time_s = time_of(members->if_contains("timestamp"));
}

int error_code_of(const Failure& failure) {
    return failure.signal != 0 ? -failure.signal : failure.exit_code;
}

json::value nested_form(const Failure& failure) {
    const auto seconds = std::to_string(failure.unix_time_ms / 1000);
    json::object inner{{"message", failure.error_message}};
    inner["extraInfo"] = json::object{{"py_callstack", failure.traceback}, {"timestamp", seconds}};
    return json::object{{"message", std::move(inner)}};
}

}  // namespace

WorkerError parse_error_file(std::string_view text) {
    json::error_code trouble;
    const json::value root = parse(text, trouble);
    const json::object* members = trouble ? nullptr : root.if_object();
    const json::value* message = members != nullptr ? members->if_contains("message") : nullptr;
    if (message == nullptr) {
        return unclear(fmt::format("{}; it begins with: {}",
                                   trouble ? "is no JSON" : "has no member 'message'",
                                   harmless_line(text.substr(0, text.find('\n')), kBeginningShown)));
    }
    WorkerError error;
    error.file = text;
    if (const json::object* inner = message->if_object()) {
        error.message = text_of(inner->if_contains("message"));
        read_extra(inner->if_contains("extraInfo"), error);
    } else {
        error.message = text_of(message);
        error.unix_time_s = time_of(members->if_contains("timestamp"));
    }
    return error;
}

std::optional<WorkerError> read_error_file(const std::filesystem::path& path) {
    const auto text = read_small_file(path, kMaxErrorFile);
    if (text.has_error()) {
        if (text.error() == make_error_code(Errc::limit_exceeded))
            return unclear(fmt::format("is larger than {} bytes", kMaxErrorFile));
        if (text.error().value() == ENOENT) return std::nullopt;
        return unclear("cannot be read: " + text.error().message());
    }
    if (text->find_first_not_of(" \t\r\n") == std::string::npos) return std::nullopt;
    return parse_error_file(*text);
}

std::optional<std::string> root_cause_file(const Failure& failure, std::string_view file) {
    if (failure.error_message.empty() && failure.traceback.empty()) return std::nullopt;
    json::error_code trouble;
    json::value root = parse(file, trouble);
    json::value* message = !trouble && root.is_object() ? root.get_object().if_contains("message") : nullptr;
    if (message == nullptr) {
        root = nested_form(failure);
        message = root.get_object().if_contains("message");
    }
    if (json::object* inner = message->if_object()) (*inner)["errorCode"] = error_code_of(failure);
    return valid_utf8(json::serialize(root));
}

std::optional<std::string> write_root_cause(const std::filesystem::path& own_error_file,
                                            const Failure& failure, std::string_view file) {
    const auto text = root_cause_file(failure, file);
    const auto error = text ? replace_file(own_error_file, *text) : boost::system::error_code();
    if (!error) return std::nullopt;
    return fmt::format("cannot write TORCHELASTIC_ERROR_FILE '{}': {}", own_error_file.string(),
                       error.message());
}

}  // namespace ddprun::inline launch
