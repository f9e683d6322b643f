#include "apps/ddprun/program_rows.hpp"

#include "apps/ddprun/option_values.hpp"

namespace ddprun::inline app {
namespace {

// For an option that is accepted only because torchrun has it: a wrong value is one here, too.
std::function<void(const std::string&)> no_effect(const std::vector<std::string>& names) {
    std::vector<std::pair<std::string, bool>> values;
    for (const std::string& name : names) values.emplace_back(name, true);
    return one_of<bool>(std::move(values));
}

}  // namespace

OptionGroup program_rows(CommandLine& line) {
    return {
        "Program",
        {{"--module,-m", "", "The program is a Python module", into(line.module), "PET_MODULE"},
         {"--no-python", "", "Execute the program itself, also if its name ends in .py", into(line.no_python),
          "PET_NO_PYTHON"},
         {"--python", "",
          "Run the program by python3 -u, whatever its name\nSo run those in .py, folders with "
          "__main__.py, zip "
          "applications, and files that cannot be executed: by $PYTHON_EXEC, else python3.",
          into(line.python)},
         {"--run-path", "",
          "Python runs the program as a path, by runpy.run_path\nAn exception is written to "
          "$TORCHELASTIC_ERROR_FILE without the program's doing. Stronger than --module and --no-python.",
          into(line.run_path), "PET_RUN_PATH"},
         {"--stdin", "WHO",
          "Who reads ddprun's own stdin: a global rank, all, or none (rank 0, unless it is a "
          "terminal)\nThe others "
          "have /dev/null. By all the workers of a node share it, as torchrun's do: what one has read no "
          "other one "
          "gets.",
          into(line.standard_input, parse_standard_input)},
         {.names = "--program",
          .metavar = "RANKS:COMMAND",
          .help =
              "These ranks (0,8-15; local=0; *) run COMMAND in place of PROGRAM\nMay be repeated; the first "
              "that "
              "names a rank counts. The same on all nodes. With '*:…' among them PROGRAM may be left out.",
          .set =
              [&line](const std::string& text) {
                  line.rank_programs.push_back(value_or_throw<UsageError>(
                      parse_rank_command("--program", text, "'0:./server --port 7' or 'local=1:./helper'")));
              },
          .repeated = true},
         {"--local-cache", "",
          "Caches of Triton, Inductor, CUDA and PyTorch's extensions in a folder of this machine, for this "
          "job\n"
          "In TMPDIR, removed at the end; where a variable like TRITON_CACHE_DIR is set, it stays.",
          into(line.local_cache)},
         {"--role", "NAME", "Label of these workers, ROLE_NAME (default)", into(line.role), "PET_ROLE"}}};
}

OptionGroup torchrun_rows(CommandLine& line) {
    return {
        "As torchrun",
        {{"--like-torchrun", "",
          "Do as torchrun where a script can see the difference\nThe default where ddprun is called by the "
          "name "
          "torchrun. Stands for --exit-codes=one --python --omp-threads=one --gpu-bind=none "
          "--signal-scope=group "
          "--stdin=all --allow-different --min-uptime=0 --same-failure=0, for which those may still be "
          "given, "
          "for torchrun's rule for $ in arguments, and for no --node-rank with c10d and etcd.",
          into(line.like_torchrun)},
         {"--exit-codes", "HOW",
          "worker: that of the worker that failed first, and those of the table in the README; one: 1 for "
          "every "
          "failure but a wrong command line (worker)",
          into(line.exits_with_one, one_of<bool>({{"worker", false}, {"one", true}}))},
         {"--omp-threads", "HOW",
          "OMP_NUM_THREADS, unless set. cpus: usable CPUs by workers; one: 1 where a node has several "
          "workers; "
          "none: untouched (cpus)",
          into(line.omp_threads,
               one_of<OmpThreads>(
                   {{"cpus", OmpThreads::cpus}, {"one", OmpThreads::one}, {"none", OmpThreads::none}}))},
         {"--legacy-launch", "[=NAME]",
          "Pass the local rank to the program as its first argument, as torch.distributed.launch does\nAs "
          "--local-rank=N; by NAME local_rank as --local_rank=N. The default where ddprun is called by the "
          "name "
          "ddprun-launch.",
          into(line.legacy_launch, parse_legacy_launch)},
         {.names = "--use-env",
          .help = "With --legacy-launch: do not pass it; LOCAL_RANK is set in any case",
          .set = into(line.use_env),
          .is_torchruns = true},
         {"--start-method", "HOW",
          "spawn, fork or forkserver. No effect: every worker is a program of its own",
          no_effect({"spawn", "fork", "forkserver"}), "PET_START_METHOD"},
         {"--monitor-interval", "S", "No effect: nothing is polled", decimal_text, "PET_MONITOR_INTERVAL"},
         {"--exit-barrier-timeout", "S", "No effect: agents stay until the job is over", decimal_text,
          "PET_EXIT_BARRIER_TIMEOUT"},
         {"--event-log-handler", "NAME",
          "null, console or dynamic_rendezvous. No effect: --events FILE has torchrun's events",
          [&line](const std::string& text) {
              no_effect({"null", "console", "dynamic_rendezvous"})(text);
              if (text == "console")
                  line.remarks.emplace_back(
                      "--event-log-handler console: passed over, no events are printed; --events FILE has "
                      "them");
          },
          "PET_EVENT_LOG_HANDLER"},
         {.names = "--logs-specs",
          .metavar = "NAME",
          .help = "default; another one would be a Python class, which ddprun cannot load",
          .set = no_effect({"default"}),
          .is_torchruns = true}}};
}

}  // namespace ddprun::inline app
