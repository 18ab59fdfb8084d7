// SPDX-License-Identifier: BSD-3-Clause
// Launch plans on disk: a second process needs no planning and no compiler.
//
// A plan is numbers (launch_plan.h): shapes, packed arguments, launch geometries, and kernels by
// the keys under which the disk cache has them (target/disk_cache.h). So the whole of it is
// kept, in an entry of that cache, and nothing of what led to it: a process that finds it loads its
// kernels and runs. IR is there again when somebody asks for a report: then the plan is made anew.
//
// The entry's key is a hash of everything that a plan depends on: the definition, the arguments'
// metadata and the options (PlanKey), the device, the build of this library, and for the host what
// its kernels' keys depend on. As in that cache, entries are replaced as a whole and verified when
// they are read; what is damaged, and a plan with a kernel that is gone, is made and stored anew.
//
// A plan that needed new kernels is stored at once. One that takes known kernels to another shape
// is stored by a thread in the background, and only the first of these are: a process that brings
// one of the others first plans it as any first shape (some milliseconds for each kernel, and maybe
// a compile), and then takes less time to plan the next ones than to read their files. For the same
// reason nobody looks for a file as long as the kernels at hand suffice.
//
// What is evaluated is kept as the text of its definition, which whoever evaluates can make a
// fusion of; where that does not give the same again, the plan is not kept. NVFUSER_STORE_PLANS=0
// turns all of this off, for whoever measures planning.
#pragma once

#include <executor/launch_plan.h>
#include <target/device.h>

#include <memory>
#include <string>
#include <vector>

namespace nvfuser {

class Fusion;

// Identifies a definition in all processes of one build.
std::string definitionDigest(const Fusion& definition);

// Empty if plans are neither looked for nor kept now: the disk cache is off, something is to be
// dumped on the way, or parameters do not come from the heuristics alone.
std::string storedPlanKey(const std::string& definition_digest, const PlanKey& key, Device device);

// The definition of what is evaluated as text, for LaunchPlan::Step. Empty if it has none. Called
// without locks.
std::string evaluatedText(const Fusion& fusion);

// Null if there is none. The plan has no IR (LaunchPlan::arguments and options are set).
std::shared_ptr<LaunchPlan> loadPlan(const std::string& stored_key, const PlanKey& key,
                                     std::span<const ArgView> args, int64_t fusion_id);
// When: before this returns, or by another thread (executor/plan_writer.h).
enum class Storing : uint8_t { Now, Soon };
void storePlan(const std::string& stored_key, const LaunchPlan& plan, Storing when);

// A plan as bytes and back; for tests. Null: the bytes are no plan.
std::string planToBytes(const LaunchPlan& plan);
std::shared_ptr<LaunchPlan> planFromBytes(std::string_view bytes);

} // namespace nvfuser
