// libFuzzer's target for texts from outside: those of users, of schedulers, of the kernel, of other machines
// and of workers. None of their readers may fall, and what one takes comes back from what is printed of it,
// where there is such a form.
//
// An input's first byte chooses the reader: A is the first of kReaders. Seeds are in text_seeds, one for
// each, by name.
//
// Built with clang and -DDDPRUN_FUZZ=ON; run as: text_fuzz -max_total_time=60 tests/launcher/text_seeds
#include <fmt/core.h>

#include <array>
#include <boost/system/system_error.hpp>
#include <cstdint>

#include "launcher/agent/node_traits.hpp"
#include "launcher/doctor/node_report.hpp"
#include "launcher/features/failure_judge.hpp"
#include "launcher/guardian/guardian_channel.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/jobs/job_record.hpp"
#include "launcher/jobs/run_record.hpp"
#include "launcher/output/output_plan.hpp"
#include "launcher/path_template.hpp"
#include "launcher/plan/device_binding.hpp"
#include "launcher/plan/gpus.hpp"
#include "launcher/plan/program.hpp"
#include "launcher/plan/program_words.hpp"
#include "launcher/plan/rank_command.hpp"
#include "launcher/process/signal_delivery.hpp"
#include "launcher/process/signal_scope.hpp"
#include "launcher/report/failure_cause.hpp"
#include "launcher/secret_text.hpp"
#include "launcher/verdict/judge.hpp"
#include "launcher/verdict/observation_text.hpp"
#include "launcher/verdict/stack_groups.hpp"
#include "launcher/view/routes.hpp"
#include "rendezvous/base/check.hpp"
#include "rendezvous/control/control_wire.hpp"
#include "rendezvous/coordinator/job_options.hpp"
#include "rendezvous/etcd/etcd_message.hpp"
#include "rendezvous/etcd/etcd_options.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/job/failure_signature.hpp"
#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/net/socket_owner.hpp"
#include "rendezvous/secure/secret.hpp"
#include "rendezvous/store/wire.hpp"
#include "rendezvous/system/resource_limits.hpp"
#include "rendezvous/text/number_text.hpp"
#include "rendezvous/text/split.hpp"
#include "rendezvous/worker/accusation.hpp"
#include "rendezvous/worker/life_table.hpp"
#include "rendezvous/worker/worker_env.hpp"
#include "tests/launcher/cluster/cluster_checks.hpp"
#include "tests/launcher/line_readers.hpp"
#include "tests/launcher/start/start_texts.hpp"
#include "tests/launcher/text_checks.hpp"

namespace ddprun {
namespace {

// --- of users

void read_endpoints(Text text) {
    if (const auto endpoint = parse_endpoint(text, 29500)) {
        must(is_valid_host(endpoint->host), "an endpoint of no host");
        must(parse_endpoint(to_string(*endpoint), 1) == endpoint,
             "an endpoint is another one after it was printed");
    }
    if (const auto several = parse_etcd_endpoints(text))
        must(parse_etcd_endpoints(to_string(*several)) == several,
             "endpoints are others after they were printed");
}

void read_networks(Text text) {
    const auto networks = parse_networks(text);
    for (const Network& network : networks.value_or(std::vector<Network>())) {
        must(network.prefix >= 0 && network.prefix <= (network.is_v6 ? 128 : 32),
             "a prefix longer than an address");
        network.contains(text);
        network.contains("10.1.2.3");
        network.contains("fd00::1%lo");
    }
}

void read_durations(Text text) {
    const auto duration = parse_duration(std::string(text));
    if (!duration) return;
    must(duration->count() >= 0, "a duration below none");
    must(parse_duration(fmt::format("{}ms", duration->count())) == duration,
         "a duration is another one after it was printed");
}

void read_sizes(Text text) {
    if (const auto size = parse_size(text))
        must(parse_size(std::to_string(*size)) == size, "a size is another one after it was printed");
    if (const auto number = parse_number(text)) {
        must(parse_number(std::to_string(*number)) == number, "a number is another one after it was printed");
        wrapping_sum(*number, *number);
    }
}

void read_code_ranges(Text text) {
    const auto ranges = parse_code_ranges(std::string(text));
    if (!ranges) return;
    std::string printed;
    for (const CodeRange& range : *ranges) {
        must(1 <= range.first && range.first <= range.last && range.last <= 255, "codes that no failure has");
        printed += fmt::format("{}{}-{}", printed.empty() ? "" : ",", range.first, range.last);
    }
    must(parse_code_ranges(printed) == ranges, "codes are others after they were printed");
}

void read_rank_sets(Text text) {
    const auto parsed = parse_rank_set(text);
    const auto* ranks = value_of(parsed);
    if (ranks == nullptr)
        return must(is_utf8(std::get<std::string>(parsed)) || !is_utf8(text), "a complaint of bytes");
    must(!ranks->contains(-1), "a rank below 0");
    if (const auto beyond = ranks->beyond(8)) {
        const auto part = parse_rank_set(*beyond);
        must(value_of(part) != nullptr, "what is beyond is no set");
    }
}

void read_shell_words(Text text) {
    const auto parsed = split_shell_words(text);
    if (const auto* words = value_of(parsed)) {
        must(std::get<std::vector<std::string>>(split_shell_words(join_shell_words(*words))) == *words,
             "words are others after they were quoted");
    }
    runs_python({"env", "-S", std::string(text)});
    if (const auto wrap = parse_wrap(text); const auto* whole = value_of(wrap))
        must(wrapped_argv({*whole}, {"true"}, {.rank = 7, .local_rank = 1, .host = "gpu07"}).back() == "true",
             "a wrapped program is another one");
}

void read_prefixes(Text text) {
    const LineOrigin origin{
        .host = "gpu07", .role = "default", .stream = "stdout", .rank = 7, .local_rank = 1};
    const auto prefix = LinePrefix::parse(text);
    if (const auto* ours = value_of(prefix))
        must(ours->with(origin).render("now") == ours->with(origin).with(origin).render("now"),
             "a prefix is filled in twice");
    LinePrefix::parse_dollar(text).with(origin).render("");
}

// Each option is a line.
void read_output_options(Text text) {
    auto parts = split_at(text, '\n');
    parts.resize(9);
    OutputOptions options;
    std::array<std::string*, 7> texts = {&options.redirects,
                                         &options.tee,
                                         &options.local_ranks_filter,
                                         &options.show,
                                         &options.log_max,
                                         &options.log_line_prefix_template,
                                         &options.duplicate_stderr_filters};
    for (std::size_t i = 0; i < texts.size(); ++i) *texts[i] = parts[i];
    if (!parts[7].empty()) options.prefix = std::string(parts[7]);
    options.log_dir = parts[8];
    const auto parsed = parse_output_options(options);
    const auto* plan = value_of(parsed);
    if (plan == nullptr) return;
    plan->stream(1, 7, OutputStream::err);
    plan->redirects.beyond(2);
    must(plan->log_max == 0 || plan->log_max >= kMinLogMax, "a limit of nothing useful");
}

void read_signals(Text text) {
    if (const auto signal = parse_signal(text)) {
        const auto name = signal_name(*signal);
        must(name && parse_signal(*name) == signal, "a signal is another one by its name");
    }
    parse_signal_scope(text);
    parse_gpu_bind(text);
    for (const std::string& entry : mask_entries(text)) must(trimmed(entry) == entry, "a device with blanks");
}

void read_secrets(Text text) {
    const auto parsed = parse_secret(text);
    if (const auto* secret = value_of(parsed)) {
        must(secret->size() >= kMinSecretText && secret->size() <= kMaxSecretText,
             "a secret that is too short or too long");
        must(std::get<std::string>(parse_secret(" " + *secret + "\r\n")) == *secret,
             "a secret is another one with blanks around");
    }
    const auto site = parse_site_policy(text);
    if (const auto* policy = value_of(site)) {
        for (const std::string& shell : policy->shells) must(!shell.empty(), "a command without a name");
    } else {
        must(!std::get<std::string>(site).empty(), "a refusal without words");
    }
}

// --- of workers

void read_error_files(Text text) {
    const WorkerError error = parse_error_file(text);
    must(is_utf8(error.message) && is_utf8(error.traceback), "what an error file says is no UTF-8");
    must(error.message.size() <= kMaxControlText && error.traceback.size() <= kMaxControlText,
         "what an error file says fits no message");
    Failure failure{.message = "", .error_message = error.message, .traceback = error.traceback};
    failure.exit_code = 7;
    root_cause_file(failure, error.file);
}

void read_signatures(Text text) {
    Failure failure;
    failure.exit_code = 1;
    failure.error_message = text;
    for (const Text line : lines_of(text)) {
        if (failure.last_lines.size() < kMaxLastLines) failure.last_lines.emplace_back(line);
        if (const auto accusation = find_accusation(line))
            must(accusation->rank >= 0, "a rank below 0 is accused");
    }
    const std::string signature = failure_signature(failure, {"gpu07"});
    must(signature == failure_signature(failure, {"gpu07"}), "a signature is another one the second time");
    const std::string mask = masked(text, {"gpu07", ""});
    must(mask.find("gpu07") == std::string::npos || text.find("gpu07") != Text::npos, "a host from nowhere");
    for (const char byte : masked(text.substr(0, text.find_first_not_of("0123456789")), {}))
        must(byte == '#', "a number is shown");
}

void show_lines(Text text) {
    for (const Text line : lines_of(text)) {
        const std::string shown = harmless_line(line);
        must(is_harmless(shown), "a line that is not harmless");
        must(shown.size() <= kMaxShownLine + 3, "a shown line that is too long");
        // Where it has been cut a name or a value may look like another one.
        must(shown.size() + 3 > kMaxShownLine || harmless_line(shown) == shown,
             "a harmless line is another one the second time");
        fit_to_columns(line, 10);
    }
    const std::string cut = cut_middle(text, 64);
    must(cut.size() <= 64 && is_utf8(cut), "a cut text is too long or no UTF-8");
    const std::string valid = valid_utf8(text);
    must(is_utf8(valid), "UTF-8 that is none");
}

// A variable in each line.
void read_environments(Text text) {
    Environment environment;
    for (const Text line : split_at(text, '\n')) {
        const std::size_t sign = std::min(line.find('='), line.size());
        environment[std::string(line.substr(0, sign))] = line.substr(std::min(sign + 1, line.size()));
    }
    try {
        const WorkerPlace place = read_worker_place(environment);
        must(place.rank >= 0 && place.rank < place.world_size, "a rank outside its world");
        // How many there are need not be told.
        must(place.local_rank >= 0 && place.local_world_size >= 1, "a local rank that is none");
    } catch (const boost::system::system_error& error) {
        must(error.code().failed(), "an error without a code");
    }
    if (const auto life = parse_life_slot(text))
        must(to_string(*parse_life_slot(to_string(*life))) == to_string(*life),
             "a life is another one after it was printed");
}

// --- of the kernel

void read_processes(Text text) {
    if (const auto process = parse_process_stat(text)) must(process->pid >= 0, "a pid below 0");
    const auto parts = split_at(text, '\x1f');
    if (const auto masks = parse_signal_masks(parts.front(), parts.back(), parts[parts.size() / 2])) {
        for (int signal = 1; signal <= kMaxSignal; ++signal)
            must(!masks->handles(signal) || !masks->ignores(signal) || masks->fetches,
                 "a signal is handled and ignored");
    }
    // A longer one has a sign at its end.
    for (const char byte : shown_command(text.substr(0, kMaxCommandText)))
        must(byte >= ' ' && byte <= '~', "a command that is not harmless");
    must(shown_command(text).size() <= kMaxCommandText + 3, "a command that is too long");
    listening_inodes(text, 29500);
}

void read_kernel_files(Text text) {
    parse_counter(text, "oom_kill");
    if (const auto cpus = parse_cpu_max(text))
        must(*cpus >= 0 && usable_cpus(8, cpus) >= 1, "a quota below none");
    const auto lines = split_at(text, '\n');
    if (const auto cpus = parse_cfs_quota(lines.front(), lines.back()))
        must(*cpus >= 0 && usable_cpus(8, cpus) >= 1, "a quota below none");
    parse_cgroup_folders(text);
    parse_driver_version(text);
    parse_gpu_model(text);
    is_gpu_file(text);
}

// --- of other programs and of other agents

void read_etcd_answers(Text text) {
    if (const auto bytes = from_base64(text))
        must(to_base64(*bytes) == text, "a base64 text that nobody writes is read");
    must(from_base64(to_base64(text)) == text, "bytes are others after their base64");
    read_granted(text);
    read_kept(text);
    read_written(text);
    is_news(text);
    if (const auto state = read_key_state(text))
        must(!state->value || state->change >= 0, "a key without a revision");
    read_refusal(400, text);
}

void read_records(Text text) {
    if (const auto record = read_host_record(text)) {
        must(read_host_record(to_json(*record)) == record, "a host is another one after it was written");
        endpoint_of(*record);
        is_one_of(*record, {}, {0});
    }
    if (const auto record = parse_job_record(text))
        must(parse_job_record(to_json(*record)) == record, "a job is another one after it was written");
    if (const auto record = parse_run_record(text))
        must(parse_run_record(to_json(*record)) == record, "a run is another one after it was written");
    parse_job_end(text);
    if (const auto summary = parse_node_summary(text))
        must(parse_node_summary(to_json(*summary)) == summary,
             "a summary is another one after it was written");
    if (const auto list = parse_node_list(text))
        must(parse_node_list(to_json(*list)) == list, "a list of nodes is another one after it was written");
    if (const auto reach = parse_reach_report(text, 0, 8))
        must(parse_reach_report(to_json(*reach), 0, 8) == reach,
             "a report of reach is another one after it was written");
    if (const auto answer = parse_answer(text)) must(answer->node >= 0, "a node below 0");
    const std::string name = job_name(text, text);
    must(name.size() <= kMaxJobName && name.find_first_of(Text("/\0\n\x1b", 4)) == std::string::npos,
         "a job's folder elsewhere");
}

void read_view_texts(Text text) {
    const ViewSource source{.status = [] { return AgentStatus{}; },
                            .job = [](const auto& done) { done(JobView{}); },
                            .stream = [](const StreamTerms&) { return std::shared_ptr<ViewStream>(); },
                            .effect_of = [](int) { return SignalEffect{}; }};
    for (const Verb verb : {Verb::get, Verb::post}) {
        ViewAnswer answer;
        answer_to({Caller::own_user, verb, std::string(text)}, source,
                  [&answer](ViewAnswer said) { answer = std::move(said); });
        must(answer.signal >= 0 && answer.signal <= kMaxSignal, "a signal that is none");
        must(answer.text.empty() || is_harmless(answer.text.substr(0, answer.text.size() - 1)),
             "an answer that cannot be shown");
    }
    if (const auto status = parse_agent_status(text))
        must(parse_agent_status(to_json(*status)) == status, "a status is another one after its text");
    if (const auto view = parse_job_view(text))
        must(parse_job_view(to_json(*view)) == view, "a view is another one after its text");
    const AgentStatus own{.group_world_size = 2};
    must(job_view({}, own, {{1, "", std::string(text), ""}}, "").nodes.size() == 2,
         "a node that is not there");
    if (const auto quiet = parse_quiet_answer(text))
        must(parse_quiet_answer(to_json(*quiet)) == quiet, "an answer is another one after its text");
    parse_signal_effect(text);
    parse_kept_piece(text);
    parse_stream_line(text);
    if (const auto asked = parse_kept_question(text))
        must(parse_kept_question(to_text(*asked)).has_value(), "a question that is none after its text");
}

void read_guardian_words(Text text) {
    if (const auto order = decode_order(text))
        must(encode_order(*order) == text, "an order is another one after its bytes");
    if (const auto event = decode_event(text))
        must(encode_event(*event) == text, "an event is another one after its bytes");
}

// Of users, once more.
void read_path_templates(Text text) {
    const std::string path = filled_path(text, {1'795'235'522, std::string(text), "gpu/07"});
    if (text.find('%') == Text::npos) must(path == text, "a path without signs is another one");
    if (!path_complaint(text) && text.find('/') == Text::npos)
        must(path.find('/') == std::string::npos, "a job's id leads to another folder");
    fixed_part(text);
    if (!names_node_rank(text)) must(with_node_rank(text, 7) == text, "a path without %r is another one");
    must(!names_node_rank(with_node_rank(text, 7)), "a node's number is still to be filled in");
}

// Of users and workers: a word of a command in each line.
void mask_texts(Text text) {
    const std::string masked = masked_text(text);
    must(masked_text(masked) == masked, "a masked text is another one the second time");
    std::vector<std::string> words;
    for (const Text line : split_at(text, '\n')) words.emplace_back(line);
    words = masked_words(std::move(words));
    must(masked_words(words) == words, "masked words are others the second time");
}

void read_observations(Text text) {
    const auto look = parse_observations(text);
    if (!look) return;
    must(parse_observations(to_json(*look)).has_value(), "observations that are none after their text");
    const HangVerdict verdict = judge(*look, {});
    must(is_harmless(verdict.sentence), "a sentence that cannot be shown");
    const std::string text_of_stacks = stacks_text({.threads = true}, *look, verdict);
    for (const std::string_view line : lines_of(text_of_stacks))
        must(is_harmless(line), "a stack that cannot be shown");
}

using Reader = void (*)(Text);
constexpr Reader kReaders[] = {
    read_endpoints,   read_networks,       read_host_list,      read_durations,    read_sizes,
    read_code_ranges, read_rank_sets,      read_shell_words,    read_prefixes,     read_output_options,
    read_signals,     read_secrets,        read_error_files,    read_signatures,   show_lines,
    split_lines,      read_environments,   read_processes,      read_kernel_files, read_etcd_answers,
    read_records,     read_view_texts,     read_guardian_words, read_clusters,     read_start_texts,
    read_timers,      read_path_templates, mask_texts,          read_observations};

}  // namespace
}  // namespace ddprun

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::size_t reader = static_cast<std::uint8_t>(data[0] - 'A') % std::size(ddprun::kReaders);
    ddprun::kReaders[reader](std::string_view(reinterpret_cast<const char*>(data) + 1, size - 1));
    return 0;
}
